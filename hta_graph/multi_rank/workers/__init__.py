"""Who runs the tasks of a job: processes of this machine or Dask's workers, with the same answers to the byte."""
