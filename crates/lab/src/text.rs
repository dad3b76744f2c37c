//! Values that are text in a description, spelled as on the command line.

use serde::{Deserialize, Deserializer, Serializer, de};
use std::fmt::Display;
use std::str::FromStr;

/// Writes by `Display`.
pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Reads by `FromStr`.
pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    String::deserialize(from)?
        .parse()
        .map_err(de::Error::custom)
}

/// The same for values that may be left out.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Display, FromStr, Serializer, de};

    #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(de::Error::custom))
            .transpose()
    }
}
