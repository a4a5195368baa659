"""Files here and on the network: S3, Google Cloud Storage, HTTP; outputs are written whole or not at all.

urls            parsed, and shown without what is secret in them
remote_errors   what went wrong on the network, with a remedy; what is tried again
remote_files    list, stat and read files of a URL
uploads         write files to a URL
location        a local path or a remote file, which answer the same questions
resolve         what a user named, as a location
file_lists      @FILE: a list of inputs
parallel_stat   many remote files asked about at once
atomic_write    local and remote outputs, whole or not at all
output_paths    where outputs may go
compress        gzip and zstd of outputs
"""
