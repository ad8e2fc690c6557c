"""What an English question says of its own, and what it leaves to the conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrieval.history.phrases import Need, Phrase

_WORD = re.compile(r"[^\W_]+(?:[-'’.&/][^\W_]+)*")
# fmt: off
_FUNCTION_WORDS = frozenset((
    "a", "about", "above", "across", "after", "again", "against", "all", "also", "although", "always",
    "am", "among", "an", "and", "another", "any", "anyone", "anything", "anyway", "are", "aren't",
    "around", "as", "ask", "at", "available", "away", "back", "be", "became", "because", "become", "been",
    "before", "being", "below", "besides", "best", "better", "between", "both", "but", "by", "call",
    "called", "came", "can", "can't", "cannot", "case", "certain", "clarify", "come", "common", "compare",
    "compared", "consider", "could", "couldn't", "did", "didn't", "differ", "difference", "differences",
    "different", "do", "does", "doesn't", "doing", "don't", "done", "down", "due", "during", "each",
    "either", "elaborate", "else", "enough", "etc", "even", "ever", "every", "everyone", "exactly",
    "example", "examples", "explain", "few", "find", "first", "for", "from", "further", "generally", "get",
    "gets", "getting", "give", "given", "giving", "go", "goes", "going", "good", "got", "great", "had",
    "happen", "happened", "happens", "has", "have", "haven't", "having", "he", "hear", "heard", "hello",
    "help", "her", "here", "hers", "hi", "him", "his", "hold", "how", "however", "i", "i'd", "i'll", "i'm",
    "i've", "idea", "if", "important", "in", "instead", "interested", "into", "involve", "involved",
    "involves", "is", "isn't", "it", "it's", "its", "itself", "just", "keep", "kind", "kinds", "know",
    "known", "last", "least", "less", "let", "let's", "like", "list", "little", "long", "look", "lot",
    "made", "main", "mainly", "make", "makes", "making", "many", "may", "maybe", "me", "mean", "means",
    "meant", "might", "more", "most", "much", "must", "my", "name", "need", "new", "next", "no", "non",
    "nor", "not", "note", "now", "of", "off", "often", "oh", "ok", "okay", "old", "on", "once", "one",
    "ones", "only", "onto", "oops", "or", "other", "others", "otherwise", "our", "out", "over", "own",
    "part", "particular", "people", "please", "possible", "pls", "provide", "put", "really", "reason",
    "reasons", "related", "right", "said", "same", "say", "see", "seem", "several", "shall", "she",
    "should", "show", "similar", "since", "so", "some", "someone", "something", "sometimes", "sort",
    "sorts", "specific", "specifically", "still", "stuff", "such", "sure", "take", "takes", "talk", "tell",
    "than", "thank", "thanks", "that", "that's", "the", "their", "them", "then", "there", "there's",
    "these", "they", "they're", "thing", "things", "think", "this", "those", "though", "through", "thus",
    "time", "to", "today", "together", "too", "toward", "try", "type", "types", "under", "understand",
    "until", "up", "upon", "us", "use", "used", "uses", "using", "usually", "various", "versus", "very",
    "via", "view", "vs", "want", "wanted", "was", "wasn't", "way", "ways", "we", "well", "went", "were",
    "weren't", "what", "what's", "whatever", "when", "where", "where's", "whether", "which", "while",
    "who", "who's", "whom", "whose", "why", "will", "with", "within", "without", "won't", "wonder", "work",
    "works", "would", "wouldn't", "yes", "yet", "you", "you're", "your", "yours",
))
# fmt: on
_PRONOUN = re.compile(
    r"\b(?:it|its|it's|itself|they|them|their|theirs|themselves|he|him|his|himself|she|her|hers|herself"
    r"|they're|he's|she's|they've)\b",
    re.IGNORECASE,
)
_DEMONSTRATIVE = re.compile(
    r"\b(?:this|that|these|those)\b(?=\s*(?:[?.!,;]|$|\b(?:is|are|was|were|do|does|did|has|have|can|could"
    r"|will|would|should|mean|means|one|ones|case|way|kind|kinds|type|types|work|works|happen|happens|in"
    r"|on|at|for|from|with|to|and|or|by|called|also|ever|still)\b))",
    re.IGNORECASE,
)
_POINTER = re.compile(
    r"\b(?:these|those|the one|the ones|the same|the other|the others|the former|the latter|such"
    r"|(?:over|in|from|get|go|going|went|live|lived|work|worked) there|there\s*[?.!]|then\s*[?.!]"
    r"|else|others?|another|instead|in that case|no, i mean\w*|i mean\w*|besides)\b",
    re.IGNORECASE,
)
_CONTINUES = re.compile(
    r"\s*(?:and|but|or|so|then|also|what about|how about|what if|why|why not|how so|how come|any|ok|okay"
    r"|really|are you sure|no)\b",
    re.IGNORECASE,
)
# Says more about what was asked, and asks nothing: `I am in Oslo.`
_STATES = re.compile(
    r"\s*(?:i(?:'m| am| live| have| was| need| prefer| meant?)|we(?:'re| are| have)|my)\b[^?]*$",
    re.IGNORECASE,
)
# Names a topic of its own: `what is a gurdwara`, `tell me about …`.
_DEFINES = re.compile(
    r"\s*(?:so |and |then |but |ok(?:ay)?,? )?(?:what(?:'s| is| are| was| were| does)|who (?:is|was|are|were)|(?:can|could) you (?:please )?"
    r"(?:tell|explain|describe|clarify|give)|tell me|i(?:'d| would) like to know|describe|explain|define)\b",
    re.IGNORECASE,
)
# `that` and `it` that stand for nothing: `is it possible to …`, `how long does it take to …`.
_EXPLETIVE = re.compile(
    r"\b(?:is|was|would|will)\s+it\s+(?:be\s+)?(?:\w+\s+)?(?:possible|true|necessary|safe|legal|common|easy|hard"
    r"|difficult|important|worth|better|best|okay|ok|good|bad|normal|illegal|required|likely)\b"
    r"|\b(?:does|would|will|did)\s+it\s+(?:take|cost|matter)\b|\bit(?:'s| is) (?:possible|true|known)\b",
    re.IGNORECASE,
)


def phrases_of(text: str) -> Iterator[Phrase]:
    """Names, and runs of other content words, in order of their place."""
    run: list[re.Match[str]] = []
    run_is_name = False
    for word, is_name in _content_words(text):
        joined = bool(run) and not text[run[-1].end() : word.start()].strip(" ")
        if run and (not joined or is_name != run_is_name):
            yield _phrase(text, run, is_name=run_is_name)
            run = []
        run, run_is_name = [*run, word], is_name
    if run:
        yield _phrase(text, run, is_name=run_is_name)


def _content_words(text: str) -> Iterator[tuple[re.Match[str], bool]]:
    """Each with whether it is (part of) a name."""
    words = [word for word in _WORD.finditer(text) if is_content(word.group())]
    names = [_is_name(text, word) for word in words]
    for place in range(len(words) - 1):
        # The first word of a sentence is capitalized anyway: what follows it tells.
        begins = words[place].group()[0].isupper() and names[place + 1]
        if begins and text[words[place].end() : words[place + 1].start()] == " ":
            names[place] = True
    return zip(words, names, strict=True)


def is_content(word: str) -> bool:
    return word.casefold().replace("’", "'") not in _FUNCTION_WORDS and (len(word) > 1 or word.isdigit())


def need_of(question: str) -> Need:
    """How far the question depends on what was said before."""
    plain = _EXPLETIVE.sub(" ", question)
    if _STATES.match(plain):
        return Need.STATES
    if _PRONOUN.search(plain) or _DEMONSTRATIVE.search(plain):
        return Need.REFERS
    phrases = list(phrases_of(question))
    num_words = sum(len(phrase.text.split()) for phrase in phrases)
    if not num_words:
        return Need.REFERS
    if _POINTER.search(plain) or _CONTINUES.match(plain):
        return Need.CONTINUES
    if _DEFINES.match(plain):
        return Need.DEFINES
    if num_words <= 2 and not any(phrase.is_name for phrase in phrases):
        return Need.SHORT
    return Need.NONE


def _phrase(text: str, run: list[re.Match[str]], *, is_name: bool) -> Phrase:
    return Phrase(text[run[0].start() : run[-1].end()], is_name)


def _is_name(text: str, word: re.Match[str]) -> bool:
    """Capitalized where a sentence does not begin, or with a digit or a second capital in it."""
    spelled = word.group()
    if any(character.isdigit() or character.isupper() for character in spelled[1:]):
        return True
    before = text[: word.start()].rstrip(" \"'“‘(")
    return spelled[0].isupper() and bool(before) and before[-1] not in ".?!:\n"
