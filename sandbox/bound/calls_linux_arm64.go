package bound

var archCalls []Call
