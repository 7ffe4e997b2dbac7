package postgres

import (
	"context"
	_ "embed" // the programs that run inside an instance
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// requestProgram and killProgram run inside instances, where Patroni has Python.
//
//go:embed request.py
var requestProgram string

//go:embed kill.py
var killProgram string

// fromInside asks from inside the instance: a reload has no other way to it.
type fromInside struct {
	machine renderer.Machine
	host    string
	port    int
}

// send implements transport. Where the answer got lost it asks again: what a reload asks for may be done twice.
func (f fromInside) send(ctx context.Context, t renderer.Target, q request) (answer, error) {
	input, err := json.Marshal(map[string]any{
		"url": "http://" + net.JoinHostPort(f.host, strconv.Itoa(f.port)) + q.path, "method": q.method, "body": string(q.body), "user": q.user, "secret": q.secret,
		"timeout": int(askTime / time.Second),
	})
	if err != nil {
		return answer{}, err
	}
	text, err := inside{f.machine, t.Instance}.run(ctx, "ask "+net.JoinHostPort(f.host, strconv.Itoa(f.port)), []string{"python3", "-c", requestProgram}, string(input))
	if err != nil {
		return answer{}, err
	}
	var got struct {
		Status int    `json:"status"`
		Body   string `json:"body"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return answer{}, fmt.Errorf("its answer could not be read: %w", err)
	}
	return answer{got.Status, []byte(got.Body)}, nil
}

// within is the Patroni of an instance, asked from inside it.
func within(a renderer.App, machine renderer.Machine, instance string) patroni {
	return patroni{fromInside{machine, "127.0.0.1", a.Params.Int("restapi_port")}, renderer.Target{Instance: instance}, a.Secrets["restapi"]}
}

// reload has Patroni read its files again, which it does within loop_wait.
func (p patroni) reload(ctx context.Context) error {
	got, err := p.ask(ctx, http.MethodPost, "/reload", nil, askTime)
	if err == nil && got.status != http.StatusAccepted && got.status != http.StatusOK {
		err = fmt.Errorf("POST /reload at Patroni of %s: %s", p.target.Instance, got.text())
	}
	return err
}
