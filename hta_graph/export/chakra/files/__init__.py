"""The bytes of ``.et`` files and the folders that hold them; what a node may say."""
