package renderer

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// SecretsPath is the folder inside an instance in which the secrets are that its type makes nothing of itself: a file
// each, named as the secret, of mode 0400.
const SecretsPath = "/etc/homelabops/secrets/"

var secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// AddSecrets adds the version of an App's secrets to a spec, and the files of those that the type makes nothing of itself.
func (s *Spec) AddSecrets(t Type, a App) error {
	s.Secrets = a.SecretsVersion
	for _, name := range slices.Sorted(maps.Keys(a.Secrets)) {
		if t.takes(name) {
			continue
		}
		if err := s.AddFiles(File{Path: SecretsPath + name, Content: a.Secrets[name], Mode: 0o400, UID: a.SecretsUID, Secret: true}); err != nil {
			return err
		}
	}
	return nil
}

// takes tells whether a type makes something of a secret itself.
func (t Type) takes(name string) bool {
	return slices.ContainsFunc(t.Secrets, func(s SecretSpec) bool { return s.Name == name })
}

// MissingSecret is the summary of the problem that a secret is not given which the type needs.
const MissingSecret = "Missing secret"

// CheckSecrets reports what is wrong with the secrets of an App of a type, without telling anything of their content.
func CheckSecrets(t Type, secrets map[string]string) []Problem {
	var problems []Problem
	for _, s := range t.Secrets {
		value, given := secrets[s.Name]
		if s.Required && !given {
			problems = append(problems, Problem{"secrets_wo", MissingSecret, fmt.Sprintf("The type %s needs the secret %s: %s", t.Name, s.Name, s.Description)})
		}
		if given && s.Check != nil {
			if err := s.Check(value); err != nil {
				problems = append(problems, Problem{"secrets_wo", "Invalid secret", fmt.Sprintf("The secret %s %s", s.Name, sentence(err))})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		switch {
		case !secretName.MatchString(name):
			problems = append(problems, Problem{"secrets_wo", "Invalid name of a secret", fmt.Sprintf("%q can't be the name of a secret: use letters, digits, underscores, dots and dashes, and begin with a letter.", name)})
		case secrets[name] == "":
			problems = append(problems, Problem{"secrets_wo", "Empty secret", fmt.Sprintf("The secret %s is empty: leave it out, or give it a value.", name)})
		case strings.ContainsRune(secrets[name], 0):
			problems = append(problems, Problem{"secrets_wo", "Invalid secret", fmt.Sprintf("The secret %s holds a zero byte.", name)})
		}
	}
	return problems
}
