use crate::sample;
use serde_json::{Value, json};
use tenbin_record::schemas;

fn run_schema() -> Value {
    let (_, text) = schemas()
        .into_iter()
        .find(|(name, _)| name == "run.schema.json")
        .unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_written_run_is_valid_and_changed_ones_are_not() {
    let validator = jsonschema::validator_for(&run_schema()).unwrap();
    let run = serde_json::to_value(sample::run()).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&run)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    let changes = [
        ("/schema", json!("tenbin.run/1")),
        ("/run/seed", json!(-1)),
        ("/server/settings/fsync", json!("on")),
        ("/result/throughput", json!(null)),
        ("/result/audit/0/verdict", json!("pass")),
        ("/result/transactions/new_order/response_ms/p90", json!("3")),
        ("/timeline/at_s/0", json!(0.5)),
    ];
    for (pointer, value) in changes {
        let mut changed = run.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&changed), "{pointer}");
    }
}

#[test]
fn every_field_is_described() {
    let schema = run_schema();
    let definitions = schema["$defs"]
        .as_object()
        .unwrap()
        .values()
        .chain([&schema]);
    let mut fields = 0;
    for definition in definitions {
        for (name, field) in definition["properties"].as_object().into_iter().flatten() {
            assert!(field["description"].is_string(), "{name}: {field}");
            fields += 1;
        }
    }
    assert!(fields > 100);
}

#[test]
fn the_parquet_files_are_described() {
    let (_, text) = schemas()
        .into_iter()
        .find(|(name, _)| name == "samples.parquet.txt")
        .unwrap();
    assert_eq!(
        text,
        "# tenbin.samples/1\nmessage samples {\n  required double offset_s;\n  required binary source (STRING);\n  \
         required binary name (STRING);\n  optional binary label (STRING);\n  optional double value;\n}\n"
    );
}
