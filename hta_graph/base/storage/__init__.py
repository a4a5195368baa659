"""Files here and on the network: S3, Google Cloud Storage, HTTP; outputs are written whole or not at all.

remote_files   URLs, what went wrong on the network, with a remedy; files of a URL listed, asked for and read
location       a local path or a remote file, which answer the same questions; what a user named, and lists (@FILE)
atomic_write   local and remote outputs, whole or not at all
output_paths   where outputs may go
compress       gzip and zstd of outputs
"""
