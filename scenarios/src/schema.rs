//! The JSON Schema of scenario files, by which editors complete and check them while one types.
//!
//! It is published as `scenarios/scenario.schema.json`; a test holds that file to this code. It
//! describes single values; what must fit together (a rank that exists, a deadline below the cap)
//! only [`crate::scenario::Scenario::parse`] knows. Plans have another form: there, durations and
//! sizes are whole numbers.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::{
    fault::FaultKind,
    settings::{
        lookup,
        own::{Form, OWN, Own, Scope},
    },
    words::{Backend, CheckpointRanks, Collective, Detector, Dtype, ErrorHandling, Outcome, Phase},
};

/// A duration with a unit, as files write it.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": r"^[0-9][0-9_]*(\.[0-9]+)?\s*(ns|us|µs|ms|s|min|m|h)$",
        "examples": ["250ms", "2s", "1min"],
    })
}

/// A size with a unit, as files write it.
pub(crate) fn size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": r"^[0-9][0-9_]*(\.[0-9]+)?\s*(B|KiB|MiB|GiB|KB|kB|MB|GB)$",
        "examples": ["64 KiB", "1 MiB"],
    })
}

/// The schema of scenario files.
pub fn scenario_schema() -> Value {
    let mut g = Words { generator: SchemaGenerator::default() };
    let backend = g.word::<Backend>();
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ringbreaker scenario",
        "description": "What is run, what is broken, what is swept, and what must hold.",
        "type": "object",
        "additionalProperties": false,
        "required": ["summary", "cluster", "workload"],
        "properties": {
            "summary": { "type": "string", "minLength": 1, "description": "One sentence." },
            "description": { "type": "string", "description": "More than one sentence." },
            "backend": describe(backend, "What ranks run. Left out: the command line decides."),
            "repetitions": whole(1, 10_000, "How often each case is repeated. Default: 1."),
            "clean": { "type": "boolean", "description": "Adds a column without faults." },
            "case_cap": describe(g.duration(), "When a case is ended by the harness. Default: twice \
                the longest deadline, and the time of pauses and faults, and 5 s."),
            "cluster": cluster(),
            "workload": workload(&mut g),
            "settings": settings(&mut g, true),
            "per_rank": per_rank(&mut g),
            "fault": { "type": "array", "items": fault(&mut g) },
            "expect": expect(&mut g),
        },
    });
    schema["$defs"] = Value::Object(g.definitions());
    schema
}

/// Builds the parts that come from Rust types.
struct Words {
    generator: SchemaGenerator,
}

impl Words {
    /// One word of a vocabulary, by reference.
    fn word<W: JsonSchema>(&mut self) -> Value {
        self.generator.subschema_for::<W>().to_value()
    }

    /// One word, or a list of them.
    fn words<W: JsonSchema>(&mut self) -> Value {
        one_or_more(self.word::<W>())
    }

    fn duration(&mut self) -> Value {
        duration(&mut self.generator).to_value()
    }

    fn size(&mut self) -> Value {
        size(&mut self.generator).to_value()
    }

    fn definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.generator.take_definitions(true);
        // Defaults are serialised as plans have them, in whole numbers, which no file may say.
        definitions.values_mut().for_each(without_defaults);
        definitions
    }
}

fn without_defaults(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("default");
            map.values_mut().for_each(without_defaults);
        }
        Value::Array(list) => list.iter_mut().for_each(without_defaults),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn describe(mut schema: Value, text: &str) -> Value {
    schema["description"] = json!(text);
    schema
}

fn whole(low: u32, high: u32, text: &str) -> Value {
    json!({ "type": "integer", "minimum": low, "maximum": high, "description": text })
}

fn one_or_more(item: Value) -> Value {
    json!({ "anyOf": [item.clone(), { "type": "array", "minItems": 1, "items": item }] })
}

fn table(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn cluster() -> Value {
    table(
        json!({
            "nodes": whole(1, 64, "Number of nodes."),
            "ranks_per_node": whole(1, 64, "Ranks on each."),
            "rendezvous_port": whole(1, 65_535, "Where rank 0 waits for the others \
                (NCCL_COMM_ID). Default: a port of the kernel's choice."),
        }),
        &["nodes", "ranks_per_node"],
    )
}

fn workload(g: &mut Words) -> Value {
    table(
        json!({
            "collective": describe(g.words::<Collective>(), "The operations, taken in turn."),
            "dtype": describe(g.word::<Dtype>(), "Element type. Default: f32."),
            "bytes": describe(one_or_more(g.size()), "Sizes of the largest buffer, in turn."),
            "iterations": whole(1, 100_000_000, "Counted operations, over all sizes and kinds."),
            "warmup": whole(1, 100_000, "Clean operations before any fault. Default: 3."),
            "interval": describe(g.duration(), "Pause between operations. Default: none."),
            "checkpoint": describe(checkpoint(g), "A file that ranks write between operations. \
                Default: none."),
            "check": { "type": "boolean", "description": "Compare every result with the exact \
                expected values. Default: true." },
        }),
        &["collective", "bytes", "iterations"],
    )
}

fn checkpoint(g: &mut Words) -> Value {
    table(
        json!({
            "every": whole(1, 100_000_000, "After every so many counted operations."),
            "bytes": describe(g.size(), "How large the file is."),
            "ranks": describe(g.word::<CheckpointRanks>(), "Who writes one. Default: all."),
        }),
        &["every", "bytes"],
    )
}

/// What an environment variable may be set to.
fn scalar() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

/// `[settings]`, where each value may be a list, or the settings of one rank.
fn settings(g: &mut Words, of_all: bool) -> Value {
    let swept = |value: Value| if of_all { one_or_more(value) } else { value };
    let mut properties = Map::new();
    for own in OWN.iter().filter(|own| of_all || own.scope == Scope::Rank) {
        let schema = swept(own_setting(g, own));
        let text = lookup(own.name).map_or("", |doc| &doc.effect);
        properties.insert(own.name.to_owned(), describe(schema, text));
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "patternProperties": { "^[A-Z_][A-Z0-9_]*$": swept(scalar()) },
    })
}

fn own_setting(g: &mut Words, own: &Own) -> Value {
    match own.form {
        Form::Deadline => json!({ "anyOf": [g.duration(), { "const": "never" }] }),
        Form::Duration => g.duration(),
        Form::Size => g.size(),
        Form::Count => json!({ "type": "integer", "minimum": 1 }),
        Form::Whole => json!({ "type": "integer", "minimum": 0 }),
        Form::Flag => json!({ "type": "boolean" }),
        Form::Mode => g.word::<ErrorHandling>(),
        Form::PortRange => json!({ "type": "string", "pattern": r"^\s*\d+\s+\d+\s*$" }),
    }
}

fn per_rank(g: &mut Words) -> Value {
    let rank = json!({ "type": "integer", "minimum": 0, "description": "The rank." });
    let item =
        table(json!({ "rank": rank, "settings": settings(g, false) }), &["rank", "settings"]);
    json!({ "type": "array", "items": item })
}

fn fault(g: &mut Words) -> Value {
    table(
        json!({
            "name": { "type": "string", "minLength": 1, "description": "Default: made from its kind." },
            "group": { "type": "string", "minLength": 1, "description": "Faults of a group act \
                together, in one case." },
            "when": trigger(g),
            "target": target(),
            "lasts": describe(g.duration(), "When it is healed, counted from its effect. Default: \
                at the end of the case."),
            "lease": describe(g.duration(), "How long it may live without being renewed. Default: \
                10 s more than it lasts, or 60 s."),
            "inject": describe(g.word::<FaultKind>(), "The kind of fault, with its parameters."),
            "expect": table(expectations(g), &[]),
        }),
        &["when", "target", "inject"],
    )
}

fn trigger(g: &mut Words) -> Value {
    let after = describe(g.duration(), "This long after steady state.");
    let iteration = json!({ "type": "integer", "minimum": 0, "description": "When the first target \
        rank begins this counted iteration." });
    let phase = describe(g.word::<Phase>(), "When the first target rank enters this phase.");
    json!({
        "description": "When it is injected.",
        "oneOf": [
            table(json!({ "after": after }), &["after"]),
            table(json!({ "iteration": iteration }), &["iteration"]),
            table(json!({ "phase": phase }), &["phase"]),
        ],
    })
}

fn target() -> Value {
    let number = json!({ "type": "integer", "minimum": 0 });
    let ends = json!({ "type": "array", "items": number, "minItems": 2, "maxItems": 2 });
    let numbers = json!({ "type": "array", "items": number, "minItems": 1 });
    json!({
        "description": "What it is aimed at; words are drawn by seed.",
        "oneOf": [
            { "enum": ["one", "minority", "all"] },
            table(json!({ "rank": number }), &["rank"]),
            table(json!({ "ranks": numbers }), &["ranks"]),
            table(json!({ "node": number }), &["node"]),
            table(json!({ "link": ends }), &["link"]),
            table(json!({ "one_way": ends }), &["one_way"]),
        ],
    })
}

/// The keys of an expectation.
fn expectations(g: &mut Words) -> Value {
    let or_any = |schema: Value| json!({ "anyOf": [schema, { "const": "any" }] });
    json!({
        "outcome": describe(or_any(g.words::<Outcome>()), "How the case ends."),
        "detector": describe(or_any(g.words::<Detector>()), "Who notices first."),
        "detected_within": describe(or_any(g.duration()), "From effect to first detection."),
        "ended_within": describe(or_any(g.duration()), "From effect until the last survivor ended."),
        "no_leftovers": { "type": "boolean", "description": "Nothing of the job is left. Default: \
            true." },
    })
}

fn expect(g: &mut Words) -> Value {
    let name = json!({ "type": "string" });
    let mut exception = expectations(g);
    exception["fault"] = describe(one_or_more(name), "The columns it is about. Default: all.");
    exception["settings"] = json!({
        "type": "object",
        "additionalProperties": one_or_more(scalar()),
        "description": "The values of settings it is about.",
    });
    let mut general = expectations(g);
    general["except"] = json!({ "type": "array", "items": table(exception, &[]) });
    table(general, &[])
}
