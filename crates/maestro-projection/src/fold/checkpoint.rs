//! A fold as bytes, and back. The large values of a state are in the first checkpoint after they changed; later ones
//! name that.

use super::StateFold;
use maestro_protocol::{Command, Cursor, json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

#[derive(Serialize)]
struct Writing<'a> {
    fold: &'a StateFold,
    values: Values,
}

#[derive(Deserialize)]
struct Reading {
    fold: StateFold,
    values: Values,
}

/// Of an earlier checkpoint only the values are of interest.
#[derive(Deserialize)]
struct Earlier {
    values: Values,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Values {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Arc<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_options: Option<Arc<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<Arc<Vec<Command>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    models: Option<Arc<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modes: Option<Arc<Value>>,
}

impl StateFold {
    /// The fold as it is after its last line, to be stored under that line's cursor. From now on the fold takes it for
    /// granted that it is stored.
    pub fn checkpoint(&mut self) -> Vec<u8> {
        let at = self.cursor;
        let values = Values {
            plan: self.plan.store(at),
            config_options: self.config_options.store(at),
            commands: self.commands.store(at),
            models: self.model.available.store(at),
            modes: self.mode.available.store(at),
        };
        serde_json::to_vec(&Writing { fold: self, values }).unwrap_or_default()
    }

    /// The fold that a checkpoint was made of; `earlier` gives the checkpoints that it names. `None` if one of them is
    /// not what [`StateFold::checkpoint`] gave.
    ///
    /// # Errors
    /// The first of `earlier`.
    pub fn resume<E>(
        checkpoint: &[u8],
        mut earlier: impl FnMut(Cursor) -> Result<Vec<u8>, E>,
    ) -> Result<Option<Self>, E> {
        let Ok(Reading { mut fold, values }) = json::from_slice(checkpoint) else { return Ok(None) };
        let mut known = BTreeMap::from([(fold.cursor, values)]);
        for at in fold.named() {
            if let Entry::Vacant(place) = known.entry(at) {
                let Ok(Earlier { values }) = json::from_slice(&earlier(at)?) else { return Ok(None) };
                place.insert(values);
            }
        }
        Ok(fold.restore(&known).then_some(fold))
    }

    /// The checkpoints that hold the values.
    fn named(&self) -> Vec<Cursor> {
        let all = [
            self.plan.stored_at(),
            self.config_options.stored_at(),
            self.commands.stored_at(),
            self.model.available.stored_at(),
            self.mode.available.stored_at(),
        ];
        all.into_iter().flatten().collect()
    }

    fn restore(&mut self, known: &BTreeMap<Cursor, Values>) -> bool {
        macro_rules! put_back {
            ($place:expr, $value:ident) => {
                $place
                    .stored_at()
                    .is_none_or(|at| $place.restore(known.get(&at).and_then(|values| values.$value.clone())))
            };
        }
        put_back!(self.plan, plan)
            && put_back!(self.config_options, config_options)
            && put_back!(self.commands, commands)
            && put_back!(self.model.available, models)
            && put_back!(self.mode.available, modes)
    }
}
