package shellparse

var tableSystem = []string{}
