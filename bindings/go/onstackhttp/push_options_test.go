// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

func TestPushOptionsThatAreWrong(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*PushOptions)
		text   string
	}{
		"no URL":              {func(o *PushOptions) { o.URL = "" }, "URL"},
		"URL without scheme":  {func(o *PushOptions) { o.URL = "localhost:4040" }, "URL"},
		"URL of another kind": {func(o *PushOptions) { o.URL = "ftp://localhost/" }, "URL"},
		"URL with a secret":   {func(o *PushOptions) { o.URL = "http://me:hunter2@\x7f/" }, "URL"},
		"no service":          {func(o *PushOptions) { o.Service = "" }, "Service"},
		"service with brace":  {func(o *PushOptions) { o.Service = "a{b" }, "Service"},
		"service with space":  {func(o *PushOptions) { o.Service = "my service" }, "Service"},
		"hyphen in label":     {func(o *PushOptions) { o.Labels = map[string]string{"git-ref": "x"} }, `"git_ref" would do`},
		"digit first":         {func(o *PushOptions) { o.Labels = map[string]string{"9a": "x"} }, `"_9a" would do`},
		"no label name":       {func(o *PushOptions) { o.Labels = map[string]string{"": "x"} }, "Labels"},
		"reserved label":      {func(o *PushOptions) { o.Labels = map[string]string{"__name__": "x"} }, "uses it itself"},
		"server's label":      {func(o *PushOptions) { o.Labels = map[string]string{"service_name": "x"} }, "uses it itself"},
		"comma in value":      {func(o *PushOptions) { o.Labels = map[string]string{"a": "x,y"} }, "comma"},
		"brace in value":      {func(o *PushOptions) { o.Labels = map[string]string{"a": "x}"} }, "brace"},
		"line end in value":   {func(o *PushOptions) { o.Labels = map[string]string{"a": "x\n"} }, "control"},
		"no UTF-8 in value":   {func(o *PushOptions) { o.Labels = map[string]string{"a": "\xff"} }, "Labels"},
		"header's name":       {func(o *PushOptions) { o.Header = http.Header{"A b": {"hunter2"}} }, "Header"},
		"header's value":      {func(o *PushOptions) { o.Header = http.Header{"Authorization": {"hunter2\n"}} }, "Authorization"},
		"header of ours":      {func(o *PushOptions) { o.Header = http.Header{"content-type": {"hunter2"}} }, "Content-Type"},
		"interval":            {func(o *PushOptions) { o.Interval = time.Millisecond }, "Interval: 1ms: give 1s or more"},
		"negative interval":   {func(o *PushOptions) { o.Interval = -time.Second }, "Interval"},
		"timeout":             {func(o *PushOptions) { o.Timeout = -1 }, "Timeout"},
		"flush timeout":       {func(o *PushOptions) { o.FlushTimeout = -1 }, "FlushTimeout"},
		"waiting":             {func(o *PushOptions) { o.MaxWaiting = -1 }, "MaxWaiting"},
		"waiting bytes":       {func(o *PushOptions) { o.MaxWaitingBytes = -1 }, "MaxWaitingBytes: -1: give a number from 1 on, or 0 for 67108864"},
		"rate":                {func(o *PushOptions) { o.Profile = []onstack.Option{onstack.WithRate(0)} }, "WithRate(0)"},
	} {
		options := PushOptions{URL: "http://localhost:1", Service: "test"}
		c.change(&options)
		err := Push(context.Background(), options)
		if !errors.Is(err, onstack.ErrOptions) && !errors.Is(err, onstack.ErrFrequency) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q, want %q", name, err, c.text)
		}
	}
}

func TestPushAddress(t *testing.T) {
	for url, want := range map[string]string{
		"http://a:4040":           "http://a:4040/ingest",
		"http://a:4040/":          "http://a:4040/ingest",
		"https://a/b":             "https://a/b/ingest",
		"https://a/b%2Fc/":        "https://a/b/c/ingest",
		"https://a/b/ingest":      "https://a/b/ingest",
		"https://me:x@a/?tenant=": "https://a/ingest", // as it is told, without what may be secret
	} {
		options := PushOptions{URL: url, Service: "test", Labels: map[string]string{"env": "a=b c", "Zone": "ü"}}
		target, err := newPushTarget(&options)
		if err != nil {
			t.Error(err)
			continue
		}
		if strings.Contains(url, "%2F") && !strings.HasPrefix(target.address(target, &pushProfile{}), url+"ingest?from=") {
			t.Errorf("%s: %s", url, target.address(target, &pushProfile{}))
		}
		if target.String() != want || target.name != "test{Zone=ü,env=a=b c}" {
			t.Errorf("%s: %s %s", url, target, target.name)
		}
	}
}
