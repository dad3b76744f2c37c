//! `SHOW CONFIG`: every setting that is no secret, with its value and its default.

use super::admin::{Table, text};
use crate::config::{Config, settings};

pub(super) fn show_config(config: &Config) -> Table {
    let usual = Config::default();
    let row = |setting: &crate::config::Setting| {
        let value = setting.show(config)?;
        let changeable = if setting.is_changeable() { "yes" } else { "no" };
        let default = setting.show(&usual);
        Some(vec![
            text(setting.name),
            Some(value),
            default,
            text(changeable),
        ])
    };
    Table {
        columns: &["key", "value", "default", "changeable"],
        rows: settings().filter_map(row).collect(),
    }
}
