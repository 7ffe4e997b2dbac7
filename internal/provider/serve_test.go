package provider

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// applying is a provider whose change lasts until it is told to end.
type applying struct {
	tfprotov6.ProviderServer
	begun, end chan struct{}
}

func (a applying) ApplyResourceChange(context.Context, *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	close(a.begun)
	<-a.end
	return &tfprotov6.ApplyResourceChangeResponse{}, nil
}

// TestProviderStaysWhileTheCLISavesWhatACutOffChangeLeft asks how long a provider stays in which the CLI has ended before,
// during and after a change, and after a cancelled one.
func TestProviderStaysWhileTheCLISavesWhatACutOffChangeLeft(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		inner := applying{begun: make(chan struct{}), end: make(chan struct{})}
		l := &leaving{ProviderServer: inner}
		if got := l.farewell(); got != 0 {
			t.Errorf("without a change: %s, want none: each command of the CLI would wait for it", got)
		}
		answered := make(chan error)
		go func() {
			_, err := l.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{})
			answered <- err
		}()
		<-inner.begun
		if got := l.farewell(); got != farewell {
			t.Errorf("during a change: %s, want %s", got, farewell)
		}
		if cancelled {
			cancel()
		}
		close(inner.end)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		if got, want := l.farewell() == farewell, cancelled; got != want {
			t.Errorf("after a change, cancelled: %v: stays: %v, want %v", cancelled, got, want)
		}
	}
}
