from __future__ import annotations
import re
from collections.abc import Sequence
from dataclasses import dataclass
from core.ids import DocumentId
from retrieval.extraction import ExtractedSentence
from retrieval.short_answer import phrases
from retrieval.short_answer.asked import Asked, asked, asks_how_long
from retrieval.short_answer.words import Word, words_of
from retrieval.support.background import BACKGROUND_TERMS
from retrieval.support.quantities import unit_fit
from retrieval.support.question_words import content_weights, says_something
from retrieval.term_weights import TermWeights, terms_of

_NUM_SENTENCES = 3

@dataclass(frozen=True, slots=True)
class ShortAnswer:
    text: str
    document_id: DocumentId
    start: int
    end: int

GENERIC = "clause"; WHY="none"
def short_answer(question: str, sentences: Sequence[ExtractedSentence]) -> ShortAnswer | None:
    kind = asked(question)
    if kind == "sentence" or not sentences:
        return None
    ss = sentences[:_NUM_SENTENCES]
    weights = content_weights(TermWeights.of(question, [*(terms_of(s.text) for s in ss), *BACKGROUND_TERMS]))
    if kind != "thing":
        for s in ss:
            words = words_of(s.text)
            best = _best_typed(question, s, words, kind, weights)
            if best: return _at(s, best)
    s = ss[0]
    words = words_of(s.text)
    if GENERIC == "np":
        best = _nearest(question, s.text, words, list(phrases.nouns(s.text, words)), weights)
    elif GENERIC == "run":
        best = _run(question, s.text, words, weights)
    elif GENERIC == "clause":
        best = _clause(s.text, words, weights)
    else: best=None
    return _at(s, best) if best else None

_CUT = re.compile(r"[,，;；:：()（）—–。]\s*|\s(?=(?:but|which|who|because|while|whereas|although)\s)")
def _clauses(text):
    start=0
    for m in _CUT.finditer(text):
        if m.group() in ",：:" and m.group()!='' and re.match(r"\d", text[m.end():m.end()+1] or ' ') and re.match(r"\d", text[m.start()-1:m.start()] or ' '): continue
        yield start,m.start(); start=m.end()
    yield start,len(text)

def _clause(text, words, weights):
    cl=[]
    for a,b in _clauses(text):
        ws=[w for w in words if a<=w.start<b]
        if len(ws)>=2: cl.append((a,b,ws))
    if len(cl)<2: return None
    def sc(c):
        t=frozenset().union(*(w.terms for w in c[2]))
        return weights.overlap(t)/len(c[2])**.3
    best=max(cl,key=sc)
    return best[0],best[1]

def _run(question,text,words,weights):
    return None

def _best_typed(question, s, words, kind, weights):
    if kind=="time":
        c=list(phrases.times(s.text))
        how=asks_how_long(question)
    elif kind=="number": c=list(phrases.numbers(s.text))
    else: c=list(phrases.names(s.text,words,kind=kind))
    c=[x for x in c if _is_new(question,s.text[x[0]:x[1]])]
    if kind=="number":
        fits={x:unit_fit(question,s.text[x[0]:x[1]+1]) for x in c}
        for f in ("right","unknown"):
            if any(v==f for v in fits.values()):
                c=[x for x in c if fits[x]==f]; break
        else:
            if c and not HAVE_WRONG: return None
    return _nearest(question,s.text,words,c,weights)
HAVE_WRONG=True
def _is_new(question,text):
    t=[x for x in terms_of(text) if says_something(x)] or list(terms_of(text))
    q=terms_of(question)
    return any(x not in q for x in t) and text.casefold() not in question.casefold()

def _nearest(question,text,words,cands,weights):
    best=None;bs=-1
    hits=[(i,max(weights.weights.get(t,0) for t in w.terms)) for i,w in enumerate(words) if w.terms and any(t in weights.weights for t in w.terms)]
    for a,b in cands:
        inside=[i for i,w in enumerate(words) if w.start<b and w.end>a]
        if not inside: continue
        lo,hi=inside[0],inside[-1]
        sc=0.0
        for i,w in hits:
            if lo<=i<=hi: continue
            gap=(lo-i) if i<lo else (i-hi)
            sc+=w/(1+gap)
        if sc>bs: bs=sc;best=(a,b)
    return best

def _at(s,place):
    a,b=place
    return ShortAnswer(s.text[a:b],s.document_id,s.start+a,s.start+b)
