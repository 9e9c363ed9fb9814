package child

// archCallNames: this architecture has no older forms.
var archCallNames []call
