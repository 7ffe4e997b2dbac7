package incus_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The lab's daemon lives on after a test that started it again, and so does the goroutine that reaps it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/homelabops/terraform-provider-homelabops/internal/lab.reap"))
}
