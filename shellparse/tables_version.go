package shellparse

var tableVersion = []string{}
