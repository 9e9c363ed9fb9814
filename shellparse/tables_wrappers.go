package shellparse

var tableWrappers = []string{}
