//! The file as it is written: its keys, units and distributions, and their JSON Schema.

use crate::network::{Service, Shape};
use schemars::JsonSchema;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

/// The JSON Schema of the file.
#[must_use]
pub fn network_schema() -> schemars::Schema {
    schemars::schema_for!(File)
}

/// A queueing network for `tenbin model`. Times are numbers in seconds or texts such as `"5 ms"`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Network")]
pub(super) struct File {
    /// Title for reports.
    pub(super) name: Option<String>,
    /// Classes of requests.
    #[serde(default)]
    pub(super) class: Vec<ClassText>,
    /// Stations; a request without `route` and `steps` visits them in this order.
    #[serde(default)]
    pub(super) station: Vec<StationText>,
    /// What requests hold while they are served: locks, connections, places.
    #[serde(default)]
    pub(super) resource: Vec<ResourceText>,
    /// How long a request that holds a record waits for another before it looks for a deadlock. Default 1 s.
    #[schemars(with = "Option<TimeText>")]
    pub(super) deadlock_timeout: Option<Spanned<TimeText>>,
    /// Where a fitted model comes from; `tenbin model fit` writes it.
    pub(super) fit: Option<crate::fit::Fit>,
}

/// What requests hold while they are served at stations.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceText {
    /// Unique name.
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// Records, each with its own queue; a request takes one at random. Default 1.
    #[schemars(with = "Option<u32>")]
    pub(super) records: Option<Spanned<i64>>,
    /// How many requests can hold a record at the same time. Default 1: a lock.
    #[schemars(with = "Option<u32>")]
    pub(super) units: Option<Spanned<i64>>,
    /// Most requests that wait; the next is refused. Default: no limit.
    #[schemars(with = "Option<u32>")]
    pub(super) queue: Option<Spanned<i64>>,
    /// The n-th record is taken in proportion to n to the power of minus this. Default 0: all alike.
    #[schemars(with = "Option<f64>")]
    pub(super) zipf: Option<Spanned<f64>>,
}

/// A step of a request: one of `visit`, `take`, `free` and `fork`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StepText {
    /// Station that serves the request.
    pub(super) visit: Option<String>,
    /// Service time of this visit. Default: that of the station.
    pub(super) service: Option<ServiceText>,
    /// Resource of which the request takes a record at random, and waits for it.
    pub(super) take: Option<String>,
    /// Resource of which the request releases all records.
    pub(super) free: Option<String>,
    /// Sequences of visits that run at the same time; the request continues when all have ended.
    #[schemars(with = "Option<Vec<Vec<StepText>>>")]
    pub(super) fork: Option<Vec<Vec<Spanned<StepText>>>>,
}

/// Requests with the same load, priority and path.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassText {
    /// Unique name.
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// Closed class: number of requests, which is constant.
    #[schemars(with = "Option<u32>")]
    pub(super) population: Option<Spanned<i64>>,
    /// Closed class: time between the end of a request and the start of the next. Default 0.
    #[schemars(with = "Option<ServiceText>")]
    pub(super) think_time: Option<Spanned<ServiceText>>,
    /// Open class: arrivals per second (a Poisson process).
    #[schemars(with = "Option<f64>")]
    pub(super) arrival_rate: Option<Spanned<f64>>,
    /// At stations with `scheduling = "priority"`: the lowest number is served first. Default 0.
    #[serde(default)]
    pub(super) priority: u32,
    /// Routing by probability: for `start` and each station, the probability of each next station or of
    /// `end`.
    #[schemars(with = "Option<BTreeMap<String, BTreeMap<String, f64>>>")]
    pub(super) route: Option<Routes>,
    /// In place of `route`: what the request does, one step after the other.
    #[schemars(with = "Option<Vec<StepText>>")]
    pub(super) steps: Option<Spanned<Vec<Spanned<StepText>>>>,
}

pub(super) type Routes =
    BTreeMap<Spanned<String>, Spanned<BTreeMap<Spanned<String>, Spanned<f64>>>>;

/// A place where requests are served and wait.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StationText {
    /// Unique name.
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// Who is served. Default `ps`, or `delay` for infinite servers.
    pub(super) scheduling: Option<SchedulingText>,
    /// Number of equal servers, or `"infinite"`. Default 1.
    #[schemars(with = "Option<ServersText>")]
    pub(super) servers: Option<Spanned<ServersText>>,
    /// Speed relative to the service times with 1, 2, … requests; the last value holds for more requests.
    #[schemars(with = "Option<Vec<f64>>")]
    pub(super) speeds: Option<Spanned<Vec<f64>>>,
    /// Service time of a visit, for all classes or by class.
    #[schemars(with = "Option<PerClass<ServiceText>>")]
    pub(super) service: Option<Spanned<PerClass<ServiceText>>>,
    /// Mean visits per request, for all classes or by class. Default 1.
    #[schemars(with = "Option<PerClass<f64>>")]
    pub(super) visits: Option<Spanned<PerClass<f64>>>,
    /// In place of `service` and `visits`: service time of all visits of a request.
    #[schemars(with = "Option<PerClass<ServiceText>>")]
    pub(super) demand: Option<Spanned<PerClass<ServiceText>>>,
}

/// Who is served.
#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub(super) enum SchedulingText {
    /// First come, first served.
    Fcfs,
    /// Processor sharing.
    Ps,
    /// No waiting.
    Delay,
    /// The class with the lowest `priority` first; a service is not interrupted.
    Priority,
    /// One service for all who wait: a group commit.
    Group,
}

/// Number of servers, or `"infinite"`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "the schema's description of ServersText")]
pub(super) enum ServersSchema {
    Count(u32),
    Word(Infinite),
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "the schema's description of ServersText")]
pub(super) enum Infinite {
    Infinite,
}

pub(super) enum ServersText {
    Count(i64),
    Infinite,
}

/// A time: a number in seconds or a text with its unit (`us`, `ms`, `s`, `min`, `h`).
#[derive(Clone)]
pub(super) struct TimeText(pub(super) f64);

/// A time, or a distribution.
#[derive(Clone)]
pub(super) enum ServiceText {
    Mean(f64),
    Distribution(Distribution),
}

/// A service time with its distribution.
#[derive(Deserialize, JsonSchema, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct Distribution {
    /// Mean; not for `empirical`.
    #[schemars(with = "Option<TimeText>")]
    pub(super) mean: Option<TimeText>,
    /// Default `exponential`.
    #[serde(default, rename = "distribution")]
    pub(super) family: Family,
    /// Stages of `erlang`, 2 to 1,000.
    pub(super) stages: Option<u32>,
    /// Coefficient of variation: above 1 for `hyper-exponential`, above 0 for `log-normal`.
    pub(super) cv: Option<f64>,
    /// Observed times of `empirical`; each is as likely as the others.
    pub(super) values: Option<Vec<TimeText>>,
    /// Closed class: added to the mean, divided by the population.
    #[schemars(with = "Option<TimeText>")]
    pub(super) wake_ups: Option<TimeText>,
    /// Closed class: added to the mean, times the square root of the population less 1.
    #[schemars(with = "Option<TimeText>")]
    pub(super) cold_caches: Option<TimeText>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy, Default, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Family {
    #[default]
    Exponential,
    Deterministic,
    Erlang,
    HyperExponential,
    LogNormal,
    Empirical,
}

/// One value for all classes, or one by class name.
pub(super) enum PerClass<T> {
    All(T),
    Each(BTreeMap<Spanned<String>, Spanned<T>>),
}

/// The schema of `TimeText`.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "Time")]
#[expect(dead_code, reason = "the schema's description of TimeText")]
pub(super) enum TimeSchema {
    /// Seconds.
    Seconds(f64),
    /// A number and its unit.
    Text(#[schemars(regex(pattern = r"^[0-9.eE+-]+ ?(us|ms|s|min|h)$"))] String),
}

macro_rules! schema_of {
    ($type:ty, $name:literal, $schema:ty) => {
        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                <$schema>::json_schema(generator)
            }
        }
    };
}

/// The schema of `ServiceText`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "the schema's description of ServiceText")]
pub(super) enum ServiceSchema {
    Mean(TimeText),
    Distribution(Distribution),
}

schema_of!(TimeText, "Time", TimeSchema);
schema_of!(ServiceText, "Service", ServiceSchema);
schema_of!(ServersText, "Servers", ServersSchema);

impl<T: JsonSchema> JsonSchema for PerClass<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("{}ByClass", T::schema_name()).into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let (all, each) = (
            generator.subschema_for::<T>(),
            generator.subschema_for::<BTreeMap<String, T>>(),
        );
        schemars::json_schema!({ "anyOf": [all, each] })
    }
}

/// The seconds of a text such as `5 ms`.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    // An exponent's `e` is followed by a digit, so that the unit begins after the last of these.
    let unit = &text[number.len()..];
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "" => {
            return Err(format!(
                "{text:?} has no unit; write for example \"5 ms\", or a number in seconds"
            ));
        }
        _ => {
            return Err(format!(
                "unknown unit {unit:?} in {text:?}; use us, ms, s, min or h"
            ));
        }
    };
    let value: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("{text:?} is not a time; write for example \"5 ms\""))?;
    Ok(value * scale)
}

pub(super) struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = TimeText;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as 0.005 or \"5 ms\"")
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<TimeText, E> {
        Ok(TimeText(value))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<TimeText, E> {
        Ok(TimeText(value as f64))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<TimeText, E> {
        seconds(text).map(TimeText).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for TimeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TimeVisitor)
    }
}

pub(super) struct ServiceVisitor;

impl<'de> Visitor<'de> for ServiceVisitor {
    type Value = ServiceText;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as \"5 ms\", or a table such as { mean = \"5 ms\", distribution = \"erlang\", stages = 4 }")
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<ServiceText, E> {
        Ok(ServiceText::Mean(value))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<ServiceText, E> {
        Ok(ServiceText::Mean(value as f64))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<ServiceText, E> {
        seconds(text).map(ServiceText::Mean).map_err(E::custom)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ServiceText, A::Error> {
        Distribution::deserialize(de::value::MapAccessDeserializer::new(map))
            .map(ServiceText::Distribution)
    }
}

impl<'de> Deserialize<'de> for ServiceText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ServiceVisitor)
    }
}

impl<'de> Deserialize<'de> for ServersText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Servers;
        impl Visitor<'_> for Servers {
            type Value = ServersText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of servers or \"infinite\"")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<ServersText, E> {
                Ok(ServersText::Count(value))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ServersText, E> {
                if text == "infinite" {
                    return Ok(ServersText::Infinite);
                }
                Err(E::custom(format!(
                    "{text:?} is no number of servers; write a number or \"infinite\""
                )))
            }
        }
        deserializer.deserialize_any(Servers)
    }
}

/// A table is a value of its own if it has one of these keys, otherwise it has a value for each class.
pub(super) trait Value: for<'de> Deserialize<'de> {
    const OWN_KEYS: &'static [&'static str];
    fn from_number(number: f64) -> Self;
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E>;
    fn from_table<E: de::Error>(table: toml::Table) -> Result<Self, E>;
}

impl Value for f64 {
    const OWN_KEYS: &'static [&'static str] = &[];
    fn from_number(number: f64) -> Self {
        number
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Err(E::custom(format!("{text:?} is a text; write a number")))
    }
    fn from_table<E: de::Error>(_: toml::Table) -> Result<Self, E> {
        Err(E::custom("write a number"))
    }
}

impl Value for ServiceText {
    const OWN_KEYS: &'static [&'static str] = &[
        "mean",
        "distribution",
        "stages",
        "cv",
        "values",
        "wake_ups",
        "cold_caches",
    ];
    fn from_number(number: f64) -> Self {
        Self::Mean(number)
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        seconds(text).map(Self::Mean).map_err(E::custom)
    }
    fn from_table<E: de::Error>(table: toml::Table) -> Result<Self, E> {
        Distribution::deserialize(table)
            .map(Self::Distribution)
            .map_err(E::custom)
    }
}

impl<'de, T: Value> Deserialize<'de> for PerClass<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(std::marker::PhantomData<T>);
        impl<'de, T: Value> Visitor<'de> for Either<T> {
            type Value = PerClass<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one value, or a table with a value for each class")
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<PerClass<T>, E> {
                Ok(PerClass::All(T::from_number(value)))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<PerClass<T>, E> {
                Ok(PerClass::All(T::from_number(value as f64)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<PerClass<T>, E> {
                T::from_text(text).map(PerClass::All)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PerClass<T>, A::Error> {
                let (mut own, mut each) = (toml::Table::new(), BTreeMap::new());
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    if T::OWN_KEYS.contains(&key.as_ref().as_str()) {
                        own.insert(key.into_inner(), map.next_value()?);
                    } else {
                        each.insert(key, map.next_value()?);
                    }
                }
                if own.is_empty() {
                    return Ok(PerClass::Each(each));
                }
                if let Some(class) = each.keys().next() {
                    return Err(de::Error::custom(format!(
                        "{:?} is no key of a distribution; use {}",
                        class.as_ref(),
                        T::OWN_KEYS.join(", ")
                    )));
                }
                T::from_table(own).map(PerClass::All)
            }
        }
        deserializer.deserialize_any(Either(std::marker::PhantomData))
    }
}

/// The distribution of a table.
pub(super) fn distribution(
    given: &Distribution,
    population: Option<f64>,
) -> Result<Service, String> {
    use Family as Name;
    let name = given.family;
    for (key, present, wanted) in [
        ("stages", given.stages.is_some(), name == Name::Erlang),
        (
            "cv",
            given.cv.is_some(),
            matches!(name, Name::HyperExponential | Name::LogNormal),
        ),
        ("values", given.values.is_some(), name == Name::Empirical),
        ("mean", given.mean.is_some(), name != Name::Empirical),
    ] {
        if present != wanted {
            let what = if wanted { "needs" } else { "has no" };
            return Err(format!("distribution {name:?} {what} {key}"));
        }
    }
    let mut mean_s = given.mean.as_ref().map_or(0.0, |mean| mean.0);
    let cv = given.cv.unwrap_or(1.0);
    let shape = match name {
        Name::Exponential => Shape::Exponential,
        Name::Deterministic => Shape::Deterministic,
        Name::Erlang => match given.stages {
            Some(stages @ 2..=1_000) => Shape::Erlang(stages),
            _ => return Err("stages is 2 to 1000; for one stage use \"exponential\"".to_owned()),
        },
        Name::HyperExponential if !(cv > 1.0 && cv <= 1e3) => {
            return Err(format!(
                "cv {cv}: a hyper-exponential distribution has one above 1, up to 1000"
            ));
        }
        Name::HyperExponential => Shape::HyperExponential(cv),
        Name::LogNormal if !(cv > 0.0 && cv <= 1e3) => {
            return Err(format!("cv {cv}: give a number above 0, up to 1000"));
        }
        Name::LogNormal => Shape::LogNormal(cv),
        Name::Empirical => {
            let values: Vec<f64> = given.values.iter().flatten().map(|value| value.0).collect();
            if values.is_empty()
                || values
                    .iter()
                    .any(|value| !value.is_finite() || *value < 0.0)
            {
                return Err("values: give at least one time, each 0 or more".to_owned());
            }
            mean_s = values.iter().sum::<f64>() / values.len() as f64;
            Shape::Empirical(values.iter().map(|value| value / mean_s).collect())
        }
    };
    mean_s += with_population(given, population)?;
    Ok(Service { mean_s, shape })
}

/// What the number of requests adds to the mean.
fn with_population(given: &Distribution, population: Option<f64>) -> Result<f64, String> {
    if given.wake_ups.is_none() && given.cold_caches.is_none() {
        return Ok(0.0);
    }
    let Some(population) = population else {
        return Err("wake_ups and cold_caches need a closed class".to_owned());
    };
    let part = |time: &Option<TimeText>| time.as_ref().map_or(0.0, |time| time.0);
    let (wake_ups, cold_caches) = (part(&given.wake_ups), part(&given.cold_caches));
    if given.family == Family::Empirical || !(wake_ups >= 0.0 && cold_caches >= 0.0) {
        return Err("wake_ups and cold_caches are 0 or more, beside a mean".to_owned());
    }
    Ok(wake_ups / population + cold_caches * (population.sqrt() - 1.0))
}
