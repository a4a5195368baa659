"""Where the tasks of a job run, behind one seam: ``concurrent.futures.Executor``.

``tasks`` (what is asked, and how an answer travels), ``engine`` (which executor, and the answers in order), ``inline``
(this process), ``processes`` (processes of this machine, whose two ends are ``own_process`` and ``serving``),
``dask_cluster`` (Dask), ``waiting`` (so that an interrupt is heard), ``remedies`` (what to do when one fails). The
answers are the same to the byte on each.
"""
