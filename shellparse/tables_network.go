package shellparse

var tableNetwork = []string{}
