package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// withLab runs tools/with-lab with a stand-in for the lab command that notes how it was called, and returns the calls.
func withLab(t *testing.T, arguments ...string) []string {
	t.Helper()
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	for name, script := range map[string]string{
		// Builds nothing: what it is to write becomes the stand-in, whose status is never good.
		"go": "#!/bin/sh\nprintf '#!/bin/sh\\necho \"$*\" >>" + calls + "\\n[ \"$1\" != status ]\\n' >\"$3\" && chmod +x \"$3\"\n",
		"id": "#!/bin/sh\necho 0\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "../../tools/with-lab", append(arguments, "true")...)
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TF_ACC_TERRAFORM_PATH=/bin/true")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestWithLabTakesDownOnlyWhatItBroughtUp(t *testing.T) {
	for name, one := range map[string]struct {
		lab, cluster bool // there before
		want         string
	}{
		"nothing is there":     {false, false, "up; cluster up; cluster down; down"},
		"a lab is there":       {true, false, "up; cluster up; cluster down"},
		"a cluster is there":   {false, true, "up; cluster up; down"},
		"both, whatever state": {true, true, "up; cluster up"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, record := range map[string]struct {
				path  string
				there bool
			}{EnvState: {"lab.json", one.lab}, EnvCluster: {"cluster.json", one.cluster}} {
				dir := t.TempDir()
				t.Setenv(variable, dir)
				if record.there {
					if err := os.WriteFile(filepath.Join(dir, record.path), []byte("{}"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := strings.Join(withLab(t, "--cluster"), "; "); got != one.want {
				t.Errorf("the lab was told: %s\nwant: %s", got, one.want)
			}
		})
	}
}
