package rollout

// Arrange is how an observation sorts the instances of one member into their roles.
var Arrange = arrange

// Detached is the time of its own that a run goes back in, and Unhurried what stops it.
var Detached, Unhurried = detached, unhurried
