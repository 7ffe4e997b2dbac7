package rollout

// Arrange is how an observation sorts the instances of one member into their roles.
var Arrange = arrange
