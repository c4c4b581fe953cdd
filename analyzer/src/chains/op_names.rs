//! What operations of chains are, by small numbers: for linking (shapes, contexts) and for groups (symbols).

use crate::job::names::{BufferId, Interner, Kind, NameText, Names, OpName, SiteId, id};

id!(/// What an operation of a chain is, as far as groups are concerned.
    SymbolId);
id!(/// What of an operation counts in a context: code site, kind and source.
    ContextId);
id!(/// What of an operation is known when it happens: code site, kind and both buffers.
    ShapeId);

/// What an operation of a chain is: two groups are equal if and only if these are, one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpSymbol {
    pub site: SiteId,
    pub kind: Kind,
    /// Several pieces.
    pub pack: bool,
    pub crosses: bool,
    pub source: BufferId,
    pub destination: BufferId,
}

/// What of an operation is known when it happens. What it becomes (several pieces, crossing to
/// another process) makes one of four symbols of it.
#[derive(Clone, Copy, Debug, Eq, Hash)]
#[expect(
    clippy::derived_hash_with_manual_eq,
    reason = "equal shapes have equal parts, which is what is hashed"
)]
pub(crate) struct OpShape {
    pub site: SiteId,
    pub kind: Kind,
    pub source: BufferId,
    pub destination: BufferId,
}

impl PartialEq for OpShape {
    /// All of it is looked at at once: mostly it is equal.
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        let names = (self.site.0 ^ other.site.0)
            | (self.source.0 ^ other.source.0)
            | (self.destination.0 ^ other.destination.0);
        names | u32::from(self.kind as u8 ^ other.kind as u8) == 0
    }
}

/// What is derived of a [`OpShape`] once.
#[derive(Clone, Copy)]
struct ShapeIds {
    context: ContextId,
    /// By whether it crosses (1) and is in pieces (2); none until asked for.
    symbols: [SymbolId; 4],
}

/// Shapes that are found without hashing all of them.
const REMEMBERED_SHAPES: usize = 128;

/// All that is interned of operations.
pub(crate) struct OpNames {
    symbols: Interner<OpSymbol>,
    contexts: Interner<(SiteId, Kind, BufferId)>,
    shapes: Interner<OpShape>,
    shape_ids: Vec<ShapeIds>,
    /// Asked for lately, by a few bits of it.
    recent_shapes: Box<[(OpShape, ShapeId); REMEMBERED_SHAPES]>,
}

impl OpNames {
    pub fn new() -> Self {
        let nothing = OpSymbol {
            site: SiteId(0),
            kind: Kind::Copy,
            pack: false,
            crosses: false,
            source: BufferId(0),
            destination: BufferId(0),
        };
        let unknown =
            OpShape { site: SiteId(0), kind: Kind::Copy, source: BufferId(0), destination: BufferId(0) };
        Self {
            symbols: Interner::new(nothing),
            contexts: Interner::new((SiteId(0), Kind::Copy, BufferId(0))),
            shapes: Interner::new(unknown),
            shape_ids: vec![ShapeIds { context: ContextId(0), symbols: [SymbolId::NONE; 4] }],
            recent_shapes: Box::new([(unknown, ShapeId(0)); REMEMBERED_SHAPES]),
        }
    }

    pub fn symbol(&mut self, symbol: &OpSymbol) -> SymbolId {
        SymbolId(self.symbols.intern(symbol))
    }

    pub fn symbol_parts(&self, id: SymbolId) -> &OpSymbol {
        self.symbols.get(id.0)
    }

    #[inline(always)]
    pub fn shape(&mut self, shape: &OpShape) -> ShapeId {
        let mixed = shape.site.0 ^ shape.source.0.rotate_left(3) ^ shape.destination.0.rotate_left(5);
        let slot = mixed as usize % REMEMBERED_SHAPES;
        let (known, id) = self.recent_shapes[slot];
        if known == *shape {
            return id;
        }
        let id = self.new_shape(shape);
        self.recent_shapes[slot] = (*shape, id);
        id
    }

    fn new_shape(&mut self, shape: &OpShape) -> ShapeId {
        let id = ShapeId(self.shapes.intern(shape));
        if id.index() == self.shape_ids.len() {
            let context = self.context(shape.site, shape.kind, shape.source);
            self.shape_ids.push(ShapeIds { context, symbols: [SymbolId::NONE; 4] });
        }
        id
    }

    /// The shape of what is no operation here.
    pub fn no_shape(&self) -> ShapeId {
        ShapeId(0)
    }

    pub fn shape_parts(&self, id: ShapeId) -> &OpShape {
        self.shapes.get(id.0)
    }

    /// What of a shape counts in a context.
    #[inline]
    pub fn shape_context(&self, id: ShapeId) -> ContextId {
        self.shape_ids[id.index()].context
    }

    /// What an operation of a shape has become.
    #[inline]
    pub fn shape_symbol(&mut self, id: ShapeId, pack: bool, crosses: bool) -> SymbolId {
        let way = usize::from(pack) * 2 + usize::from(crosses);
        let known = self.shape_ids[id.index()].symbols[way];
        if known.is_some() {
            return known;
        }
        let OpShape { site, kind, source, destination } = *self.shape_parts(id);
        let symbol = self.symbol(&OpSymbol { site, kind, pack, crosses, source, destination });
        self.shape_ids[id.index()].symbols[way] = symbol;
        symbol
    }

    pub fn context(&mut self, site: SiteId, kind: Kind, source: BufferId) -> ContextId {
        ContextId(self.contexts.intern(&(site, kind, source)))
    }

    /// Where operations of a context are.
    pub fn context_site(&self, id: ContextId) -> SiteId {
        self.contexts.get(id.0).0
    }

    /// What a context is.
    pub fn context_parts(&self, id: ContextId) -> (SiteId, Kind, BufferId) {
        *self.contexts.get(id.0)
    }

    /// What of a symbol counts in a context.
    pub fn context_of(&mut self, id: SymbolId) -> ContextId {
        let s = *self.symbol_parts(id);
        self.context(s.site, s.kind, s.source)
    }

    /// A symbol by name.
    pub fn op_name(&self, id: SymbolId, names: &Names) -> OpName {
        let s = self.symbol_parts(id);
        OpName {
            site: names.site_name(s.site).clone(),
            kind: s.kind,
            pack: s.pack,
            crosses: s.crosses,
            source: names.buffer_name(s.source).clone(),
            destination: names.buffer_name(s.destination).clone(),
        }
    }

    /// The symbol that has a name.
    pub fn symbol_named(&mut self, name: &OpName, names: &mut Names) -> SymbolId {
        let symbol = OpSymbol {
            site: names.named_site(&name.site),
            kind: name.kind,
            pack: name.pack,
            crosses: name.crosses,
            source: names.buffer(&name.source),
            destination: names.buffer(&name.destination),
        };
        self.symbol(&symbol)
    }
}

// They are made of numbers.
impl NameText for OpSymbol {}
impl NameText for OpShape {}
impl NameText for (SiteId, Kind, BufferId) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::wire::FileId;

    #[test]
    fn a_symbol_is_found_again_by_its_name() {
        let (mut names, mut ops) = (Names::new(), OpNames::new());
        let id = FileId { dev: 1, inode: 2 };
        let site = names.site(id, 16);
        let source = names.heap_buffer(site);
        let symbol =
            OpSymbol { site, kind: Kind::Copy, pack: true, crosses: false, source, destination: BufferId(0) };
        let symbol = ops.symbol(&symbol);
        let name = ops.op_name(symbol, &names);
        assert_eq!(ops.symbol_named(&name, &mut names), symbol);
    }
}
