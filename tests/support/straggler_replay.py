"""A pipelined job as a graph of this package, and its steps in replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hta_graph.model import Bools, Floats, Ints
from tests.support.straggler_job import StragglerJob
from tests.support.straggler_rules import OPTIMIZER

__all__ = ["StragglerReplay", "StepLengths"]


@dataclass(frozen=True)
class StepLengths:
    """Mean lengths of a step (ns), one per scenario: to the last end of all, and to the last end of an optimizer."""

    whole: Floats
    to_optimizer: Floats


@dataclass(frozen=True)
class _Edges:
    source: Ints
    target: Ints
    weight_of: Ints


def job_edges(job: StragglerJob):
    copies, size = job.start.shape
    dp, steps = job.dp, len(job.steps)
    base = np.arange(copies)[:, None] * size
    n_ops = copies*size
    S = lambda e: 2*e
    E = lambda e: 2*e+1
    src, tgt, w = [], [], []
    def add(a,b,c):
        a,b,c = np.broadcast_arrays(a,b,c)
        src.append(a.ravel()); tgt.append(b.ravel()); w.append(c.ravel())
    every = np.arange(n_ops)
    add(S(every), E(every), every)
    waits = np.array(job.rules.waits).reshape(-1,2)
    add(E(base+waits[:,0]), S(base+waits[:,1]), -1)
    next_ = n_ops
    for g in job.rules.groups:
        m = np.array(g.members)
        if len(m)==1 and not (g.on_all and dp>1): continue
        rows = (base + m).reshape(steps, -1) if g.on_all else base+m
        meet = next_ + np.arange(len(rows))[:,None]
        next_ += len(rows)
        add(S(rows), S(meet), -1)
        add(S(meet), E(rows), rows)
    firsts = np.setdiff1d(np.arange(size), waits[:,1])
    root = next_ + np.arange(steps)
    add(S(np.repeat(root,dp)[:,None]), S(base+firsts), -1)
    return np.concatenate(src), np.concatenate(tgt), np.concatenate(w), root, next_+steps


class StragglerReplay:
    def __init__(self, job):
        self.job=job
        s,t,w,root,n = job_edges(job)
        npts=2*n
        indeg=np.bincount(t,minlength=npts)
        level=np.zeros(npts,int)
        order=np.argsort(s,kind='stable'); first=np.searchsorted(s[order],np.arange(npts+1))
        front=np.flatnonzero(indeg==0); L=0; seen=0
        while len(front):
            level[front]=L; seen+=len(front)
            idx=np.concatenate([order[first[p]:first[p+1]] for p in front.tolist()]) if len(front) else []
            tt=t[idx]; np.subtract.at(indeg,tt,1)
            front=np.unique(tt[indeg[tt]==0]); L+=1
        assert seen==npts
        o=np.lexsort((t,level[t])); self.s,self.t,self.w=s[o],t[o],w[o]
        lv=level[self.t]; self.cuts=np.searchsorted(lv,np.arange(1,L+1)); self.root=root; self.npts=npts
    @classmethod
    def of(cls, job): return cls(job)
    def steps(self, masks):
        job=self.job; n=job.start.size
        T=np.zeros((self.npts,len(masks)),np.int64)
        V=np.stack([np.where(m,job.transfer,job.ideal).ravel() for m in masks],1)
        V=np.concatenate([V,np.zeros((1,len(masks)),np.int64)])
        T[2*self.root]=job.step_start[:,None]
        for a,b in zip(self.cuts[:-1],self.cuts[1:]):
            t=self.t[a:b]; x=T[self.s[a:b]]+V[self.w[a:b]]
            f=np.flatnonzero(np.r_[True,t[1:]!=t[:-1]])
            T[t[f]]=np.maximum.reduceat(x,f,axis=0)
        st=T[0:2*n:2].reshape(len(job.steps),-1,len(masks)); en=T[1:2*n:2].reshape(len(job.steps),-1,len(masks))
        opt=np.tile(job.types==OPTIMIZER,job.dp)
        return StepLengths((en.max(1)-st.min(1)).mean(0),(en[:,opt].max(1)-job.step_start[:,None]).mean(0))
