package shellparse

var tableContainers = []string{}
