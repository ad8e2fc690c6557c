from __future__ import annotations
import math, re
from retrieval.short_answer.candidates import candidates, clauses, _CUES
from retrieval.support.question_words import says_something
NAMES=("left","right","same","lastq","name","joined","tail","clause","len","len2","cue","start","before_s","after_o","digit","quoted","rank","prep","nextprep","nextcop","end","cl_overlap","verb_before","verb_after","near1","wholein","common","head_in","both_sides","q_before","q_after")
_SUBJ=re.compile(r"^(?:\W*)(?:who|what|which\s+\w+|what\s+\w+)\s+(?!(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|s)\b)\w+|^(?:谁|什么|哪[个位家种些]\S{0,4})",re.I)
_PREP=frozenset("in at of by to for from with on into as between than through under over".split())
_COP=frozenset("is are was were be has have had can could will would may did does do".split())
_WHN=re.compile(r"\b(?:what|which)\s+(?:type|kind|name|sort)?(?:\s*of\s+)?(\w+)|(?:什么|哪[个位家种些座部款项场条支]?)([\u4e00-\u9fff]{1,4})",re.I)
def wh_first(question): return bool(_SUBJ.search(question))
def features(question, text, words, cands, weights, rank):
    from retrieval.term_weights import terms_of
    q=frozenset(weights.weights)
    tot=sum(weights.weights.values()) or 1
    hits=[(i,max(weights.weights.get(t,0) for t in w.terms if t in q)/tot) for i,w in enumerate(words) if any(t in q for t in w.terms)]
    subj=wh_first(question)
    m=_WHN.search(question); head=terms_of(m[1] or m[2]) if m else frozenset()
    whpos=m.start()/max(1,len(question)) if m else .5
    cls=[(a,b,weights.overlap(frozenset().union(*(w.terms for w in words if a<=w.start<b)))) for a,b in clauses(text)]
    out=[]
    for c in cands:
        ins=[i for i,w in enumerate(words) if w.start<c.end and w.end>c.start]
        if not ins: out.append(None); continue
        lo,hi=ins[0],ins[-1]
        content=[w for w in (words[i] for i in ins) if any(says_something(t) for t in w.terms)] or [words[i] for i in ins]
        same=sum(1 for w in content if any(t in q for t in w.terms))/len(content)
        if same==1: out.append(None); continue
        left=sum(w/(1+lo-i)**.5 for i,w in hits if i<lo); right=sum(w/(1+i-hi)**.5 for i,w in hits if i>hi)
        n=hi-lo+1
        l=math.log(n)
        pv=words[lo-1] if lo and text[words[lo-1].end:c.start].strip()=='' else None
        nx=words[hi+1] if hi+1<len(words) and text[c.end:words[hi+1].start].strip()=='' else None
        pt=pv.text.casefold() if pv else ''; nt=nx.text.casefold() if nx else ''
        if pt in('the','a','an') and lo>1: pt=words[lo-2].text.casefold()
        co=max((o for a,b,o in cls if a<=c.start<b),default=0)
        cand_terms=frozenset().union(*(words[i].terms for i in ins))
        out.append([left,right,same,float(any(t in q for t in words[hi].terms)),c.shape=="name",c.shape=="joined",c.shape=="tail",c.shape=="clause",
          l,l*l,bool(_CUES.search(text,0,c.start)),lo==0,subj*right,(not subj)*left,any(ch.isdigit() for ch in text[c.start:c.end]),text[c.start-1:c.start] in "“\"「『《‘" if c.start else False,rank,
          pt in _PREP or bool(pv and pv.tag=='p'), nt in _PREP or bool(nx and nx.tag=='p'), nt in _COP, nx is None, co,
          bool(pv and pv.tag.startswith('v')),bool(nx and nx.tag.startswith('v')), max([w for i,w in hits if i in(lo-1,hi+1)],default=0), n==len(words), sum(1 for w in content if len(w.text)==1)/len(content), bool(head&cand_terms), float(left>0 and right>0), whpos*left, whpos*right])
    return out
