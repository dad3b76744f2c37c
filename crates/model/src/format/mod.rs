//! The network file: TOML in, [`Network`] out. Every error has its line and key.

use crate::network::{Class, Load, Network, Path, Resource, Service, Shape, Station};
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;

mod stations;
mod steps;
mod text;
mod visits;

pub use text::network_schema;
use text::{ClassText, File, Routes, ServiceText, Value as _, distribution};
use visits::visits;

/// Largest number of stations.
const MOST_STATIONS: usize = 1_000;
/// Largest number of classes.
const MOST_CLASSES: usize = 100;
/// Largest population of a class.
const MOST_REQUESTS: u32 = 1_000_000;
/// Longest file in bytes.
const MOST_BYTES: usize = 4 << 20;
/// `PostgreSQL`'s default.
const DEADLOCK_TIMEOUT_S: f64 = 1.0;
/// How far routes may be from 1 in sum.
const ROUTE_TOLERANCE: f64 = 1e-9;

/// What is wrong with a network file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {key}: {message}")]
pub struct FormatError {
    /// The file's name as the caller gave it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The key, such as `station "cpu": service`.
    pub key: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Network {
    /// Reads a network file. `file` is its name in messages.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and key.
    pub fn parse(text: &str, file: &str) -> Result<Self, FormatError> {
        Reader {
            text,
            file,
            at: None,
        }
        .read()
    }

    /// The same with another population of the closed class, of which `active` are served at most.
    ///
    /// # Errors
    /// As [`Self::parse`]; also if there is more than one class.
    pub(crate) fn parse_at(
        text: &str,
        file: &str,
        population: u32,
        active: u32,
    ) -> Result<Self, FormatError> {
        let reader = Reader {
            text,
            file,
            at: Some((population, active)),
        };
        let network = reader.read()?;
        if network.classes.len() > 1 || network.population(0) == 0 {
            let message = "a number of clients needs a model with one closed class";
            return Err(reader.error(0..0, "class", message));
        }
        Ok(network)
    }
}

/// The part `[fit]`.
pub(crate) fn fit(text: &str, file: &str) -> Result<Option<crate::fit::Fit>, FormatError> {
    let reader = Reader {
        text,
        file,
        at: None,
    };
    reader.parsed().map(|parsed| parsed.fit)
}

impl Reader<'_> {
    fn parsed(&self) -> Checked<File> {
        if self.text.len() > MOST_BYTES {
            let message = format!(
                "the file has {} bytes; the limit is {MOST_BYTES}",
                self.text.len()
            );
            return Err(self.error(0..0, "file", message));
        }
        toml::from_str(self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let key = self.key_at(span.start);
            self.error(span, &key, error.message().to_owned())
        })
    }

    fn read(&self) -> Checked<Network> {
        self.network(&self.parsed()?)
    }
}

/// The text, for places in it.
struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    /// Population of the closed class and how many of it are active, in place of the file's.
    at: Option<(u32, u32)>,
}

/// A class's value with its place; `None`: the class has none.
type Placed<'a, T> = Option<(&'a T, Range<usize>)>;

type Checked<T> = Result<T, FormatError>;

impl Reader<'_> {
    fn error(&self, span: Range<usize>, key: &str, message: impl Into<String>) -> FormatError {
        let before = self.text.get(..span.start).unwrap_or_default();
        FormatError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            key: key.to_owned(),
            message: message.into(),
        }
    }

    /// The key of the line at a place, for errors that come from the TOML parser.
    fn key_at(&self, place: usize) -> String {
        let start = self
            .text
            .get(..place)
            .and_then(|before| before.rfind('\n'))
            .map_or(0, |at| at + 1);
        let line = self
            .text
            .get(start..)
            .unwrap_or_default()
            .lines()
            .next()
            .unwrap_or_default();
        line.split('=').next().unwrap_or_default().trim().to_owned()
    }

    fn network(&self, file: &File) -> Checked<Network> {
        let end = self.text.len()..self.text.len();
        if file.class.is_empty() {
            return Err(self.error(
                end,
                "class",
                "there is no class; add [[class]] with a name and a population or an arrival_rate",
            ));
        }
        if file.station.is_empty() {
            return Err(self.error(
                end,
                "station",
                "there is no station; add [[station]] with a name and a service time",
            ));
        }
        for (what, count, most) in [
            ("class", file.class.len(), MOST_CLASSES),
            ("station", file.station.len(), MOST_STATIONS),
        ] {
            if count > most {
                return Err(self.error(
                    end,
                    what,
                    format!("there are {count}; the limit is {most}"),
                ));
            }
        }
        self.names("class", file.class.iter().map(|class| &class.name))?;
        self.names("station", file.station.iter().map(|station| &station.name))?;
        let class_names: Vec<&str> = file
            .class
            .iter()
            .map(|class| class.name.as_ref().as_str())
            .collect();
        let populations: Vec<Option<f64>> =
            file.class.iter().map(|class| self.active(class)).collect();
        let resources = self.resources(file)?;
        let has_steps = file.class.iter().any(|class| class.steps.is_some());
        let mut stations = file
            .station
            .iter()
            .map(|station| self.station(station, &class_names, &populations, has_steps))
            .collect::<Checked<Vec<_>>>()?;
        let mut classes = Vec::new();
        for (index, class) in file.class.iter().enumerate() {
            let class = self.class(class, index, file, &mut stations)?;
            self.refusals(&class, &file.class[index], &resources)?;
            classes.push(class);
        }
        for (text, station) in file.station.iter().zip(&stations) {
            if station.visits.iter().all(|visits| *visits <= 0.0) {
                let key = format!("station {:?}", station.name);
                return Err(self.error(
                    text.name.span(),
                    &key,
                    "no class reaches this station; remove it, or add a service time or a route",
                ));
            }
        }
        let network = Network {
            name: file.name.clone(),
            classes,
            stations,
            resources,
            deadlock_timeout_s: self.deadlock_timeout(file)?,
        };
        if let Some((station, share)) = network.overloaded().next() {
            let name = &file.station[station].name;
            let message = format!(
                "the open classes need {:.1} % of this station's capacity, so its queue grows without end; lower arrival_rate or the service time, or add servers",
                share * 100.0
            );
            return Err(self.error(
                name.span(),
                &format!("station {:?}", name.as_ref()),
                message,
            ));
        }
        Ok(network)
    }

    fn names<'a>(
        &self,
        what: &str,
        names: impl Iterator<Item = &'a Spanned<String>>,
    ) -> Checked<()> {
        let mut known = BTreeSet::new();
        for name in names {
            let text = name.as_ref();
            let key = format!("{what}: name");
            if text.trim().is_empty() {
                return Err(self.error(name.span(), &key, "the name is empty"));
            }
            if ["start", "end"].contains(&text.as_str())
                || ServiceText::OWN_KEYS.contains(&text.as_str())
            {
                return Err(self.error(
                    name.span(),
                    &key,
                    format!("{text:?} has a meaning in this format; choose another name"),
                ));
            }
            if !known.insert(text) {
                return Err(self.error(
                    name.span(),
                    &key,
                    format!("{text:?} is there twice; names must differ"),
                ));
            }
        }
        Ok(())
    }

    fn deadlock_timeout(&self, file: &File) -> Checked<f64> {
        match &file.deadlock_timeout {
            None => Ok(DEADLOCK_TIMEOUT_S),
            Some(time) if time.as_ref().0.is_finite() && time.as_ref().0 > 0.0 => {
                Ok(time.as_ref().0)
            }
            Some(time) => {
                let message = format!("{} s: a time is above 0", time.as_ref().0);
                Err(self.error(time.span(), "deadlock_timeout", message))
            }
        }
    }

    /// A refused request that does not think would come back at the same moment, for ever.
    fn refusals(&self, class: &Class, text: &ClassText, resources: &[Resource]) -> Checked<()> {
        let at_once = matches!(&class.load, Load::Closed { think, .. } if think.mean_s <= 0.0);
        match (&class.path, &text.steps) {
            (Path::Steps(list), Some(steps)) if at_once && steps::may_refuse(list, resources) => {
                Err(self.error(
                    steps.span(),
                    &format!("class {:?}: steps", class.name),
                    "a resource with a queue may refuse requests, which return after the think time; give a think_time",
                ))
            }
            _ => Ok(()),
        }
    }

    /// How many requests of a closed class are active at most.
    fn active(&self, class: &ClassText) -> Option<f64> {
        let population = class.population.as_ref()?;
        let active = self
            .at
            .map_or(*population.as_ref(), |(_, active)| i64::from(active));
        Some(active as f64)
    }

    /// `population`: the requests that share the processors, for a time that depends on them.
    fn service(
        &self,
        text: &ServiceText,
        population: Option<f64>,
        span: Range<usize>,
        key: &str,
        zero: bool,
    ) -> Checked<Service> {
        let service = match text {
            ServiceText::Mean(mean_s) => Ok(Service {
                mean_s: *mean_s,
                shape: Shape::Exponential,
            }),
            ServiceText::Distribution(given) => distribution(given, population),
        };
        let service = service.map_err(|message| self.error(span.clone(), key, message))?;
        let mean_s = service.mean_s;
        if !mean_s.is_finite() || mean_s < 0.0 || (mean_s <= 0.0 && !zero) {
            let least = if zero { "0 or more" } else { "above 0" };
            return Err(self.error(span, key, format!("{mean_s} s: a time is {least}")));
        }
        Ok(service)
    }

    fn class(
        &self,
        text: &ClassText,
        index: usize,
        file: &File,
        stations: &mut [Station],
    ) -> Checked<Class> {
        let key = |part: &str| format!("class {:?}: {part}", text.name.as_ref());
        let load = match (&text.population, &text.arrival_rate) {
            (Some(_), Some(rate)) => {
                return Err(self.error(
                    rate.span(),
                    &key("arrival_rate"),
                    "a class has either a population (closed) or an arrival_rate (open)",
                ));
            }
            (None, None) => {
                return Err(self.error(
                    text.name.span(),
                    &key("population"),
                    "give a population (closed) or an arrival_rate (open)",
                ));
            }
            (Some(population), None) => self.closed(text, population)?,
            (None, Some(rate)) => {
                if let Some(think) = &text.think_time {
                    return Err(self.error(
                        think.span(),
                        &key("think_time"),
                        "an open class has no think time",
                    ));
                }
                let rate_per_s = *rate.as_ref();
                if !rate_per_s.is_finite() || rate_per_s <= 0.0 {
                    return Err(self.error(
                        rate.span(),
                        &key("arrival_rate"),
                        format!("{rate_per_s} arrivals per second: give a number above 0"),
                    ));
                }
                Load::Open { rate_per_s }
            }
        };
        let path = match (&text.route, &text.steps) {
            (Some(_), Some(steps)) => {
                return Err(self.error(steps.span(), &key("steps"), "give either route or steps"));
            }
            (None, Some(steps)) => {
                Path::Steps(self.steps(steps.as_ref(), text, index, file, stations)?)
            }
            (None, None) => Path::Order,
            (Some(routes), None) => {
                let routes = self.routes(routes, text, file)?;
                let visits = visits(&routes).ok_or_else(|| {
                    self.error(
                        text.name.span(),
                        &key("route"),
                        "a request never ends; give a route to \"end\" from every loop",
                    )
                })?;
                for (station, visits) in stations.iter_mut().zip(visits) {
                    if visits > 0.0 && station.service[index].is_none() {
                        let message = format!(
                            "a route goes to {:?}, where this class has no service time",
                            station.name
                        );
                        return Err(self.error(text.name.span(), &key("route"), message));
                    }
                    station.visits[index] = visits;
                }
                Path::Routes(routes)
            }
        };
        if stations.iter().all(|station| station.visits[index] <= 0.0) {
            return Err(self.error(
                text.name.span(),
                &key("name"),
                "this class visits no station",
            ));
        }
        Ok(Class {
            name: text.name.as_ref().clone(),
            load,
            priority: text.priority,
            path,
        })
    }

    fn closed(&self, text: &ClassText, population: &Spanned<i64>) -> Checked<Load> {
        let key = |part: &str| format!("class {:?}: {part}", text.name.as_ref());
        let think = match &text.think_time {
            None => Service {
                mean_s: 0.0,
                shape: Shape::Exponential,
            },
            Some(think) => self.service(
                think.as_ref(),
                self.active(text),
                think.span(),
                &key("think_time"),
                true,
            )?,
        };
        let given = self.at.map_or(*population.as_ref(), |(population, _)| {
            i64::from(population)
        });
        let count = u32::try_from(given)
            .ok()
            .filter(|count| (1..=MOST_REQUESTS).contains(count))
            .ok_or_else(|| {
                let message = format!("{given}: give 1 to {MOST_REQUESTS}");
                self.error(population.span(), &key("population"), message)
            })?;
        Ok(Load::Closed {
            population: count,
            think,
        })
    }

    /// The routes as numbers of stations, checked one by one.
    fn routes(
        &self,
        text: &Routes,
        class: &ClassText,
        file: &File,
    ) -> Checked<Vec<Vec<(usize, f64)>>> {
        let key = |from: &str| format!("class {:?}: route {from:?}", class.name.as_ref());
        let place = |name: &Spanned<String>, from: &str| {
            let place = file
                .station
                .iter()
                .position(|station| station.name.as_ref() == name.as_ref());
            place.ok_or_else(|| {
                self.error(
                    name.span(),
                    &key(from),
                    format!("there is no station {:?}", name.as_ref()),
                )
            })
        };
        let mut routes = vec![Vec::new(); file.station.len() + 1];
        let mut given = vec![false; file.station.len() + 1];
        for (from, next) in text {
            let name = from.as_ref().as_str();
            let row = if name == "start" {
                0
            } else {
                place(from, name)? + 1
            };
            given[row] = true;
            let mut sum = 0.0;
            for (to, chance) in next.as_ref() {
                let value = *chance.as_ref();
                if !(0.0..=1.0).contains(&value) {
                    return Err(self.error(
                        chance.span(),
                        &key(name),
                        format!("{value}: a probability is 0 to 1"),
                    ));
                }
                sum += value;
                if to.as_ref() != "end" && value > 0.0 {
                    routes[row].push((place(to, name)?, value));
                }
            }
            if (sum - 1.0).abs() > ROUTE_TOLERANCE {
                return Err(self.error(
                    next.span(),
                    &key(name),
                    format!("the probabilities sum to {sum}, not 1"),
                ));
            }
        }
        if !given[0] {
            return Err(self.error(
                class.name.span(),
                &key("start"),
                "there is no route from \"start\"",
            ));
        }
        // Only what can be reached needs a way on.
        let mut reached = vec![0];
        let mut next = 0;
        while let Some(&row) = reached.get(next) {
            if !given[row] {
                let name = file.station[row - 1].name.as_ref();
                return Err(self.error(
                    class.name.span(),
                    &key(name),
                    "requests reach this station, but there is no route from it",
                ));
            }
            for (to, _) in &routes[row] {
                if !reached.contains(&(to + 1)) {
                    reached.push(to + 1);
                }
            }
            next += 1;
        }
        if let Some((from, _)) = text.iter().find(|(from, _)| {
            let row = file
                .station
                .iter()
                .position(|station| station.name.as_ref() == from.as_ref());
            row.is_some_and(|row| !reached.contains(&(row + 1)))
        }) {
            return Err(self.error(
                from.span(),
                &key(from.as_ref()),
                "no route from \"start\" reaches this station",
            ));
        }
        Ok(routes)
    }
}
