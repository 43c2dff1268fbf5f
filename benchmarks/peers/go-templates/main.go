// Renders the Echo's manifests as Helm does: text/template to text, and sigs.k8s.io/yaml from the text to objects.
//
// It reads the parents from standard input, a JSON list, renders all of them once for each round, and prints as JSON the
// manifests of the first parent, and of each round the microseconds of CPU for one manifest.
package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"
)

//go:embed templates
var sources embed.FS

type object = map[string]any

type result struct {
	Manifests    []object  `json:"manifests"`
	Microseconds []float64 `json:"microseconds"`
}

func main() {
	made, err := measure(os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(made)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure(arguments []string) (*result, error) {
	if len(arguments) != 1 {
		return nil, fmt.Errorf("say how many rounds")
	}
	rounds, err := strconv.Atoi(arguments[0])
	if err != nil {
		return nil, err
	}
	var parents []object
	if err := json.NewDecoder(os.Stdin).Decode(&parents); err != nil {
		return nil, err
	}
	templates, err := load()
	if err != nil {
		return nil, err
	}
	first, err := render(templates, parents[0])
	if err != nil {
		return nil, err
	}
	made := &result{Manifests: first}
	for range rounds {
		before := used()
		for _, parent := range parents {
			if _, err := render(templates, parent); err != nil {
				return nil, err
			}
		}
		spent := float64((used() - before).Nanoseconds()) / 1e3
		made.Microseconds = append(made.Microseconds, spent/float64(len(parents)*len(first)))
	}
	return made, nil
}

// load parses every file once, in the order of their names.
func load() ([]*template.Template, error) {
	files, err := sources.ReadDir("templates")
	if err != nil {
		return nil, err
	}
	var templates []*template.Template
	for _, file := range files {
		text, err := sources.ReadFile("templates/" + file.Name())
		if err != nil {
			return nil, err
		}
		parsed, err := template.New(file.Name()).Option("missingkey=error").Parse(string(text))
		if err != nil {
			return nil, err
		}
		templates = append(templates, parsed)
	}
	return templates, nil
}

func render(templates []*template.Template, parent object) ([]object, error) {
	metadata := parent["metadata"].(object)
	values := object{"object": parent, "metadata": metadata, "spec": parent["spec"], "name": metadata["name"]}
	var manifests []object
	for _, each := range templates {
		var text bytes.Buffer
		if err := each.Execute(&text, values); err != nil {
			return nil, err
		}
		var manifest object
		if err := yaml.Unmarshal(text.Bytes(), &manifest); err != nil {
			return nil, err
		}
		manifests = append(manifests, manifest)
	}
	return manifests, nil
}

// used is the CPU time of this process, its garbage collector's included.
func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
