"""A comparison of tools: questions about traces whose true answers are known, put to this tool and to others.

``python -m tests.tool_comparison`` asks them all and prints how often each kind is answered rightly. A question is
a recipe that writes the traces and returns the truth (``question.py``), so that a seed decides about all of it:

jobs.py        which rank delays a job, and by what; jobs that nothing delays
programs.py    what one rank, or an inference server, spends its time on; programs at which nothing is to be gained
gains.py       what a change saves: the program is changed and run again
pairs.py       whether one run is slower than another
unknown.py     what the traces do not show
recorded.py    the same of recorded jobs and runs
"""
