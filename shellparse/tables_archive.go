package shellparse

var tableArchive = []string{}
