//go:build race

package rollout_test

// usualStride is wider under the race detector, which makes each run ten times slower.
const usualStride = 61
