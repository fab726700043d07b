//! What JSON may go on from here to the log and to clients.

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{collections::BTreeMap, fmt};

/// serde_json reads an object that begins with this key as the JSON inside the key's text. So an agent could hide
/// from us what a later reader would find, and nest deeper than we measured.
const RAW_VALUE_KEY: &str = "$serde_json::private::RawValue";

/// Whether `raw`, whose depth was measured, can be read as a [`serde_json::Value`] that is what its text says. Not so:
/// half a surrogate pair, a number that no `f64` can hold, a key of serde_json's own. Builds nothing.
pub(super) fn is_keepable(raw: &RawValue) -> bool {
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    deserializer.disable_recursion_limit();
    Skipped::deserialize(&mut deserializer).is_ok()
}

/// The fields of an object, the last one of a name as every later reader takes it; `None` for anything else.
pub(super) fn fields(raw: &RawValue) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// A value that was read and forgotten.
struct Skipped;

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Skip)
    }
}

struct Skip;

impl<'de> Visitor<'de> for Skip {
    type Value = Skipped;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON that can be kept")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_unit<E>(self) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_str<E>(self, _: &str) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Skipped, A::Error> {
        while items.next_element::<Skipped>()?.is_some() {}
        Ok(Skipped)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Skipped, A::Error> {
        while entries.next_entry::<Key, Skipped>()?.is_some() {}
        Ok(Skipped)
    }
}

/// A key that was read, is not serde_json's own, and is forgotten.
struct Key;

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Key)
    }
}

impl Visitor<'_> for Key {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that every reader takes as a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self, E> {
        if key == RAW_VALUE_KEY { Err(E::custom("a key of serde_json's own")) } else { Ok(self) }
    }
}
