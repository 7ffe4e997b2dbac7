package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// errNoRecord says that no lab is in this directory.
var errNoRecord = errors.New("no lab there")

// readRecord reads what a lab or a cluster remembers about itself.
func readRecord[R any](path string) (R, error) {
	var record R
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return record, errNoRecord
	}
	if err == nil {
		err = json.Unmarshal(data, &record)
	}
	if err != nil {
		return record, fmt.Errorf("read the record %s: %w", path, err)
	}
	return record, nil
}

// writeRecord replaces it in one step, so that it is never read half-written.
func writeRecord[R any](path string, record R) error {
	data, err := json.MarshalIndent(record, "", "  ")
	if err == nil {
		err = os.WriteFile(path+".new", append(data, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write the record %s: %w", path, err)
	}
	return nil
}
