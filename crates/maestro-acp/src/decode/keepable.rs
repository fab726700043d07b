//! What JSON may go on from here to the log and to clients.

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::fmt;

/// serde_json reads an object that begins with this key as the JSON inside the key's text. So an agent could hide
/// from us what a later reader would find, and nest deeper than we measured.
const RAW_VALUE_KEY: &str = "$serde_json::private::RawValue";

/// JSON that must not go on.
#[derive(Debug)]
pub(super) struct Unkeepable;

/// Refuses `raw`, whose depth was measured, unless it can be read as a [`serde_json::Value`] that is what its text
/// says. Not so: half a surrogate pair, a number that no `f64` can hold, a key of serde_json's own. Builds nothing.
pub(super) fn is_keepable(raw: &RawValue) -> Result<(), Unkeepable> {
    pick(raw, []).map(|[]| ())
}

/// The fields of these names, the last one of a name as every later reader takes it; none of anything but an object.
/// Refuses what [`is_keepable`] does, but for the fields that it gives: these are not looked into.
pub(super) fn pick<'a, const N: usize>(
    raw: &'a RawValue,
    names: [&'static str; N],
) -> Result<[Option<&'a RawValue>; N], Unkeepable> {
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    deserializer.disable_recursion_limit();
    let picked = if raw.get().starts_with('{') {
        deserializer.deserialize_map(Pick { names })
    } else {
        Skipped::deserialize(&mut deserializer).map(|Skipped| [None; N])
    };
    picked.map_err(|_refused| Unkeepable)
}

/// Takes the fields of these names out of an object.
struct Pick<const N: usize> {
    names: [&'static str; N],
}

impl<'de, const N: usize> Visitor<'de> for Pick<N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object that can be kept")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut picked = [None::<&RawValue>; N];
        while let Some(place) = entries.next_key_seed(Names(&self.names))? {
            let Some(place) = place else {
                entries.next_value::<Skipped>()?;
                continue;
            };
            if let Some(earlier) = picked[place].replace(entries.next_value()?) {
                is_keepable(earlier).map_err(|Unkeepable| A::Error::custom("a value that cannot be kept"))?;
            }
        }
        Ok(picked)
    }
}

/// A key, and which of these names it is.
struct Names<'n>(&'n [&'static str]);

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Names<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that every reader takes as a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        if key == RAW_VALUE_KEY {
            return Err(E::custom("a key of serde_json's own"));
        }
        Ok(self.0.iter().position(|name| *name == key))
    }
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
        while entries.next_key_seed(Names(&[]))?.is_some() {
            entries.next_value::<Skipped>()?;
        }
        Ok(Skipped)
    }
}
