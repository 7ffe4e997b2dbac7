package outcome

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/sentence"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// summaries are the stable names of how a run can end, the first that fits.
var summaries = []error{
	rollout.ErrRevertFailed, rollout.ErrReverted, rollout.ErrGate, rollout.ErrSettle, rollout.ErrBusy, rollout.ErrExists,
	rollout.ErrStale, rollout.ErrImage, rollout.ErrRefused, rollout.ErrAway,
}

// advices say what to do next, by summary, where the failure doesn't say it better itself.
var advices = map[string]string{
	rollout.ErrReverted.Error():     "The next plan shows the same change again. Mend what the instance failed of, or go back to what image and configuration were.",
	rollout.ErrRevertFailed.Error(): "Mend what stood in the way and apply again: the next run goes on from what is there.",
	rollout.ErrGate.Error():         "Mend what the instance failed of and apply again. To look at an instance that fails, set on_failure = \"keep\" for a first creation.",
	rollout.ErrImage.Error():        "Check image. `incus image list` shows the aliases and fingerprints that the server has itself.",
}

// Failure makes a diagnostic of a run that did not reach its goal: what was attempted and what was last seen, what state
// things are in, what to do.
func Failure(ctx context.Context, c *connection.Connection, noun string, err error) diag.Diagnostic {
	summary := "failed"
	for _, sentinel := range summaries {
		if errors.Is(err, sentinel) {
			summary = sentinel.Error()
			break
		}
	}
	contact, advice, isContact := c.Explain(ctx, err)
	if isContact && summary == "failed" {
		summary = contact
	}
	var f *rollout.Failure
	if !errors.As(err, &f) {
		return diag.NewErrorDiagnostic(summary, err.Error())
	}
	paragraphs := []string{fmt.Sprintf("%s %q: could not %s", noun, f.App, f.Doing)}
	if f.Cause != nil {
		paragraphs[0] += ": " + f.Cause.Error()
	}
	paragraphs[0] = sentence.End(paragraphs[0])
	if len(f.Now) > 0 {
		paragraphs = append(paragraphs, strings.Join(f.Now, "\n"))
	}
	switch {
	case f.Advice != "":
		paragraphs = append(paragraphs, f.Advice)
	case isContact:
		paragraphs = append(paragraphs, advice)
	case advices[summary] != "":
		paragraphs = append(paragraphs, advices[summary])
	case connection.Again(err) != "":
		paragraphs = append(paragraphs, connection.Again(err))
	}
	if errors.Is(err, rollout.ErrExists) {
		paragraphs = append(paragraphs, "If this resource replaces itself under the same name with create_before_destroy, it can't: remove that setting, or change name as well.")
	}
	return diag.NewErrorDiagnostic(summary, strings.Join(paragraphs, "\n\n"))
}
