//go:build !race

package rollout_test

const usualStride = 5
