package child

// archCallNames: this architecture has no older forms.
var archCallNames []call

// resultRegister is the register with the result of a call, as the kernel orders them.
const resultRegister = 0 // x0
