//! The JSON schema of what `--json` prints: every kind of result is as it says. The check knows the
//! keywords that the schema has, and no others.

use serde_json::{Value, json};

use ktax::model::Saved;
use ktax::report::JSON;

use super::{every, show};
use crate::common::{ktax, run};

/// Keywords that say nothing of what is allowed.
const REMARKS: [&str; 7] =
    ["$schema", "$defs", "title", "description", "format", "default", "unevaluatedProperties"];

struct Schema(Value);

impl Schema {
    fn check(&self, value: &Value) -> Result<(), String> {
        self.check_part(&self.0, value, "")
    }

    fn check_part(&self, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
        let keywords = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(keywords) => keywords,
            _ => return Err(format!("{place}: nothing may be here, not {value}")),
        };
        for (keyword, wanted) in keywords {
            self.check_keyword((keyword, wanted), schema, value, place)?;
        }
        Ok(())
    }

    fn check_keyword(
        &self,
        (keyword, wanted): (&str, &Value),
        schema: &Value,
        value: &Value,
        place: &str,
    ) -> Result<(), String> {
        let each = || wanted.as_array().unwrap().iter();
        let fits = |schema: &&Value| self.check_part(schema, value, place).is_ok();
        let count = value.as_array().map_or(0, Vec::len) as u64;
        let is_met = match keyword {
            "$ref" => {
                let name = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                return self.check_part(self.0.pointer(name).unwrap(), value, place);
            }
            "anyOf" => each().any(|part| fits(&part)),
            "oneOf" => each().filter(|part| fits(part)).count() == 1,
            "allOf" => return each().try_for_each(|part| self.check_part(part, value, place)),
            "type" => has_type(wanted, value),
            "enum" => each().any(|part| part == value),
            "const" => wanted == value,
            "minimum" => !value.is_number() || value.as_f64() >= wanted.as_f64(),
            "maximum" => !value.is_number() || value.as_f64() <= wanted.as_f64(),
            "minItems" => !value.is_array() || count >= wanted.as_u64().unwrap(),
            "maxItems" => !value.is_array() || count <= wanted.as_u64().unwrap(),
            "required" => {
                !value.is_object() || each().all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "propertyNames" => return self.check_names(wanted, value, place),
            "properties" | "patternProperties" | "additionalProperties" => {
                return self.check_object(schema, value, place);
            }
            "items" | "prefixItems" => return self.check_array(schema, value, place),
            _ => {
                assert!(REMARKS.contains(&keyword), "the check does not know {keyword}");
                true
            }
        };
        if is_met { Ok(()) } else { Err(format!("{place}: {keyword} {wanted} refuses {value}")) }
    }

    fn check_names(&self, wanted: &Value, value: &Value, place: &str) -> Result<(), String> {
        let mut names = value.as_object().into_iter().flat_map(|object| object.keys());
        names.try_for_each(|name| self.check_part(wanted, &json!(name), place))
    }

    fn check_object(&self, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
        for (name, value) in value.as_object().into_iter().flatten() {
            let place = format!("{place}/{name}");
            let numbered = || {
                let patterns = schema.get("patternProperties")?.as_object()?;
                let (pattern, wanted) = patterns.iter().next()?;
                assert!(pattern.contains(r"\d+"), "the check does not know the pattern {pattern}");
                name.bytes().all(|byte| byte.is_ascii_digit()).then_some(wanted)
            };
            let wanted = schema.get("properties").and_then(|known| known.get(name));
            let wanted = wanted.or_else(numbered).or(schema.get("additionalProperties"));
            self.check_part(wanted.unwrap_or(&json!(true)), value, &place)?;
        }
        Ok(())
    }

    fn check_array(&self, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
        for (index, value) in value.as_array().into_iter().flatten().enumerate() {
            let wanted = schema.get("prefixItems").and_then(|first| first.get(index));
            let wanted = wanted.or(schema.get("items")).cloned().unwrap_or(json!(true));
            self.check_part(&wanted, value, &format!("{place}/{index}"))?;
        }
        Ok(())
    }
}

fn has_type(wanted: &Value, value: &Value) -> bool {
    let has_name = |name: &Value| match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}"),
    };
    wanted.as_array().map_or_else(|| has_name(wanted), |several| several.iter().any(has_name))
}

fn schema() -> Schema {
    Schema(serde_json::from_str(&run(ktax().args(["report", "--schema"])).stdout).unwrap())
}

fn json_of(result: &Saved) -> Value {
    serde_json::from_str(&show(result, JSON)).unwrap()
}

#[test]
fn every_result_follows_the_schema() {
    let schema = schema();
    for (name, result) in every() {
        let value = json_of(&result);
        schema.check(&value).unwrap_or_else(|error| panic!("{name}: {error}"));
        schema.check(&json!([value, value])).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn invalid_results_do_not_follow_the_schema() {
    let schema = schema();
    let (_, result) = every().next().unwrap();
    let value = json_of(&result);
    let with = |change: fn(&mut Value)| {
        let mut value = value.clone();
        change(&mut value);
        schema.check(&value)
    };
    assert!(with(|_| {}).is_ok());
    assert!(with(|value| value["format"] = json!("1")).is_err());
    assert!(with(|value| value["more"] = json!(1)).is_err());
    assert!(
        with(|value| drop(value["result"].as_object_mut().unwrap().remove("comparison"))).is_err()
    );
    assert!(
        with(|value| value["result"]["comparison"]["rows"][0]["verdict"] = json!("odd")).is_err()
    );
    assert!(with(|value| value["result"]["comparison"]["rows"][0]["title"] = json!(null)).is_err());
}
