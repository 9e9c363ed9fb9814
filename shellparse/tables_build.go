package shellparse

var tableBuild = []string{}
