package sandbox

var archAttempts []attempt
