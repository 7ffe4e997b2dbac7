package incus

import "errors"

// listTries is how often a list is asked for of which something goes while it is made.
const listTries = 5

// listed asks for a list again where the answer is that it was not found. The server (Incus 6.0.4) reads the names first and then
// each thing by itself, and answers so when somebody deletes one in between.
func listed(ask func() error) error {
	for try := 1; ; try++ {
		if err := ask(); !errors.Is(err, ErrNotFound) || try == listTries {
			return err
		}
	}
}
