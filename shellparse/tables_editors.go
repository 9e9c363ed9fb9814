package shellparse

var tableEditors = []string{}
