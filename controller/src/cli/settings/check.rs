//! `settings --check`: what is odd about settings as they are.

use ringbreaker_scenarios::settings;
use serde_json::json;

use super::{
    super::documents::{print, print_json, tell},
    Page, SettingsArgs, given,
};
use crate::{error::Error, exit};

/// Prints every remark; ends with the verdict.
pub(super) fn main(args: &SettingsArgs) -> Result<u8, Error> {
    let given = given::settings(args)?;
    let remarks = settings::check(&given, args.versions());
    let known = given.keys().filter(|name| settings::lookup(name).is_some()).count();
    match args.format {
        Page::Json => print_json(&json!({ "known": known, "remarks": remarks })),
        _ => {
            for remark in &remarks {
                print(&remark.to_string());
            }
            let odd = if remarks.is_empty() { "nothing odd" } else { "see above" };
            tell(&format!("{known} known settings among {} looked at: {odd}", given.len()));
        }
    }
    let wrong = remarks.iter().any(|remark| remark.oddity.is_wrong());
    Ok(if wrong { exit::FAIL } else { exit::PASS })
}
