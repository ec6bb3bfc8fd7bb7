//! Random specifications with their shapes, as trees of whole numbers, so that they shrink.

use linwright_ops::{
    BlockHadamardSpec, ButterflySpec, CirculantDiagonalSpec, CirculantInit,
    CirculantParameterisation, DenseSpec, DiagonalLowRankSpec, KroneckerSpec, LowRankSpec,
    MonarchSpec, Nonlinearity, OpSpec, ProductSpec, RotorInit, RotorNetworkSpec, RotorOrder,
    RotorSpec, Shape, SubmatrixSpec, SumSpec,
};
use proptest::bool::ANY as COIN;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::sample::select;
use proptest::strategy::BoxedStrategy;

/// A specification and the shape asked of it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) spec: OpSpec,
    pub(crate) shape: Shape,
}

fn of_shape(spec: OpSpec, out: usize, inp: usize) -> Case {
    Case { spec, shape: Shape { out, inp } }
}

fn extent() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 1..=40_usize, 1 => 41..=260_usize]
}

fn dense() -> impl Strategy<Value = Case> {
    (extent(), extent()).prop_map(|(out, inp)| of_shape(OpSpec::Dense(DenseSpec {}), out, inp))
}

fn low_rank() -> impl Strategy<Value = Case> {
    (1..=8_usize, extent(), extent())
        .prop_map(|(rank, out, inp)| of_shape(OpSpec::LowRank(LowRankSpec { rank }), out, inp))
}

fn diagonal_low_rank(rank: usize) -> OpSpec {
    OpSpec::DiagonalLowRank(DiagonalLowRankSpec { rank })
}

fn near_diagonal() -> impl Strategy<Value = Case> {
    (0..=6_usize, extent(), extent())
        .prop_map(|(rank, out, inp)| of_shape(diagonal_low_rank(rank), out, inp))
}

fn monarch() -> impl Strategy<Value = Case> {
    (1..=12_usize, 1..=20_usize, 1..=20_usize, COIN).prop_map(|(blocks, high, wide, named)| {
        let spec = MonarchSpec { blocks: named.then_some(blocks) };
        of_shape(OpSpec::Monarch(spec), blocks * high, blocks * wide)
    })
}

fn submatrix() -> impl Strategy<Value = Case> {
    let side = || (1..=20_usize, 0..=20_usize);
    (side(), side()).prop_map(|((outputs, out), (inputs, inp))| {
        let spec = SubmatrixSpec { outputs, inputs };
        of_shape(OpSpec::Submatrix(spec), outputs + out, inputs + inp)
    })
}

fn kronecker() -> impl Strategy<Value = Case> {
    let left = (1..=12_usize, 1..=12_usize);
    (1..=3_usize, left, (1..=16_usize, 1..=16_usize), COIN).prop_map(
        |(terms, (o1, i1), (o2, i2), named)| {
            let left = named.then_some(Shape { out: o1, inp: i1 });
            of_shape(OpSpec::Kronecker(KroneckerSpec { terms, left }), o1 * o2, i1 * i2)
        },
    )
}

fn butterfly() -> impl Strategy<Value = Case> {
    (0..=8_u32, COIN, of(0..=10_usize)).prop_map(|(power, orthogonal, factors)| {
        let spec = OpSpec::Butterfly(ButterflySpec { orthogonal, factors });
        of_shape(spec, 1 << power, 1 << power)
    })
}

fn block_hadamard() -> impl Strategy<Value = Case> {
    let blocks = (0..=3_u32, COIN);
    (2..=4_usize, 0..=5_u32, blocks, 1..=20_usize, 8..=160_usize).prop_map(
        |(depth, block, (blocks, named), high, inp)| {
            let blocks = 1 << blocks;
            let named = named.then_some(blocks);
            let spec = BlockHadamardSpec { depth, block: 1 << block, blocks: named };
            of_shape(OpSpec::BlockHadamard(spec), 4 * blocks * high, inp)
        },
    )
}

fn circulant_diagonal() -> impl Strategy<Value = Case> {
    use CirculantParameterisation::{Polar, Raw, Time};
    let kinds = select(vec![Time, Raw, Polar]);
    let init = select(vec![CirculantInit::Orthogonal, CirculantInit::Random]);
    (1..=4_usize, extent(), kinds, init).prop_map(|(factors, n, parameterisation, init)| {
        let spec = CirculantDiagonalSpec { factors, parameterisation, init };
        of_shape(OpSpec::CirculantDiagonal(spec), n, n)
    })
}

fn rotor_init() -> impl Strategy<Value = RotorInit> {
    select(vec![RotorInit::Normal, RotorInit::NearIdentity])
}

fn rotor() -> impl Strategy<Value = Case> {
    let order = select(vec![RotorOrder::Graded, RotorOrder::Binary]);
    let more = (0..=90_usize, 0..=90_usize);
    (0..=6_u32, more, COIN, (COIN, rotor_init(), order)).prop_map(
        |(power, (out, inp), named, (single, init, order))| {
            let least = 1 << power;
            let chunk = named.then_some(least);
            let spec = RotorSpec { chunk, single, init, order };
            of_shape(OpSpec::Rotor(spec), least + out, least + inp)
        },
    )
}

fn rotor_network() -> impl Strategy<Value = Case> {
    let layers = (1..=2_usize, 1..=3_usize, of(0..=5_u32));
    let nonlinearity = select(vec![
        Nonlinearity::None,
        Nonlinearity::Relu,
        Nonlinearity::Prelu,
        Nonlinearity::Gelu,
        Nonlinearity::Silu,
    ]);
    let switches = (COIN, COIN, COIN, COIN, COIN);
    ((1..=70_usize, 1..=70_usize), layers, nonlinearity, switches, rotor_init()).prop_map(
        |((out, inp), (hidden_layers, breadth, width), nonlinearity, switches, init)| {
            let (normalize, residual, permute, proj_parallel, single_rotor) = switches;
            let hidden_width = width.map(|power| 1 << power);
            let spec = RotorNetworkSpec {
                hidden_width,
                hidden_layers,
                breadth,
                nonlinearity,
                normalize,
                residual,
                permute,
                proj_parallel,
                single_rotor,
                init,
            };
            let least = hidden_width.unwrap_or(1);
            of_shape(OpSpec::RotorNetwork(spec), out.max(least), inp.max(least))
        },
    )
}

/// A specification for any shape of at least three by three.
fn child() -> impl Strategy<Value = OpSpec> {
    prop_oneof![
        Just(OpSpec::Dense(DenseSpec {})),
        (1..=3_usize).prop_map(|rank| OpSpec::LowRank(LowRankSpec { rank })),
        (0..=3_usize).prop_map(diagonal_low_rank),
        COIN.prop_map(|single| OpSpec::Rotor(RotorSpec { single, ..RotorSpec::default() })),
    ]
}

fn sum() -> impl Strategy<Value = Case> {
    (vec(child(), 1..=3), 3..=60_usize, 3..=60_usize)
        .prop_map(|(terms, out, inp)| of_shape(OpSpec::Sum(SumSpec { terms }), out, inp))
}

fn product() -> impl Strategy<Value = Case> {
    let factor = (child(), 3..=40_usize);
    (vec(factor, 1..=3), COIN, 3..=60_usize, 3..=60_usize).prop_map(|(factors, named, out, inp)| {
        let (factors, mut widths): (Vec<_>, Vec<_>) = factors.into_iter().unzip();
        widths.pop();
        let spec = ProductSpec { factors, widths: named.then_some(widths) };
        of_shape(OpSpec::Product(spec), out, inp)
    })
}

/// Any kind, most of them possible.
pub(crate) fn case() -> BoxedStrategy<Case> {
    prop_oneof![
        dense(),
        low_rank(),
        near_diagonal(),
        monarch(),
        submatrix(),
        kronecker(),
        butterfly(),
        block_hadamard(),
        circulant_diagonal(),
        rotor(),
        rotor_network(),
        sum(),
        product(),
    ]
    .boxed()
}

/// Kinds that have inverses where they are square, and products of them.
pub(crate) fn square_case() -> BoxedStrategy<Case> {
    let side = || 1..=70_usize;
    let diagonal =
        (0..=6_usize, side()).prop_map(|(rank, n)| of_shape(diagonal_low_rank(rank), n, n));
    let small = circulant_diagonal().prop_filter("small", |case| case.shape.inp <= 100);
    let product = (0..=5_u32, vec(0..=2_u8, 1..=4)).prop_map(|(power, kinds)| {
        let factor = |kind| match kind {
            0 => diagonal_low_rank(0),
            1 => OpSpec::Butterfly(ButterflySpec::default()),
            _ => OpSpec::CirculantDiagonal(CirculantDiagonalSpec::default()),
        };
        let factors = kinds.into_iter().map(factor).collect();
        of_shape(OpSpec::Product(ProductSpec { factors, widths: None }), 1 << power, 1 << power)
    });
    let butterfly = butterfly().prop_filter("small", |case| case.shape.inp <= 128);
    prop_oneof![diagonal, small, product, butterfly].boxed()
}

/// Numbers as a file could have them: small, next to powers of two, and the largest there are.
/// Powers in the middle make many parts of few numbers.
fn hostile() -> impl Strategy<Value = usize> {
    let near = (40..=62_u32, 0..=2_usize).prop_map(|(power, more)| (1 << power) - 1 + more);
    let middle = (12..=30_u32).prop_map(|power| 1 << power);
    prop_oneof![12 => 0..=24_usize, 1 => middle, 2 => near, 2 => Just(usize::MAX)]
}

fn hostile_leaf() -> BoxedStrategy<OpSpec> {
    let count = hostile;
    let init = select(vec![CirculantInit::Orthogonal, CirculantInit::Random]);
    let network = (of(count()), count(), count(), COIN, COIN).prop_map(
        |(hidden_width, hidden_layers, breadth, permute, proj_parallel)| {
            let paper = RotorNetworkSpec::default();
            OpSpec::RotorNetwork(RotorNetworkSpec {
                hidden_width,
                hidden_layers,
                breadth,
                permute,
                proj_parallel,
                ..paper
            })
        },
    );
    prop_oneof![
        Just(OpSpec::Dense(DenseSpec {})),
        count().prop_map(|rank| OpSpec::LowRank(LowRankSpec { rank })),
        count().prop_map(diagonal_low_rank),
        of(count()).prop_map(|blocks| OpSpec::Monarch(MonarchSpec { blocks })),
        (count(), count())
            .prop_map(|(outputs, inputs)| { OpSpec::Submatrix(SubmatrixSpec { outputs, inputs }) }),
        (count(), of((count(), count()))).prop_map(|(terms, left)| {
            let left = left.map(|(out, inp)| Shape { out, inp });
            OpSpec::Kronecker(KroneckerSpec { terms, left })
        }),
        (COIN, of(count())).prop_map(|(orthogonal, factors)| {
            OpSpec::Butterfly(ButterflySpec { orthogonal, factors })
        }),
        (count(), count(), of(count())).prop_map(|(depth, block, blocks)| {
            OpSpec::BlockHadamard(BlockHadamardSpec { depth, block, blocks })
        }),
        (count(), init).prop_map(|(factors, init)| {
            let spec = CirculantDiagonalSpec { factors, init, ..CirculantDiagonalSpec::default() };
            OpSpec::CirculantDiagonal(spec)
        }),
        (of(count()), COIN).prop_map(|(chunk, single)| {
            OpSpec::Rotor(RotorSpec { chunk, single, ..RotorSpec::default() })
        }),
        network,
    ]
    .boxed()
}

/// Any kind with any options for any shape, most of them impossible.
pub(crate) fn hostile_case() -> BoxedStrategy<Case> {
    let nested = prop_oneof![
        vec(hostile_leaf(), 0..=3).prop_map(|terms| OpSpec::Sum(SumSpec { terms })),
        (vec(hostile_leaf(), 0..=3), of(vec(hostile(), 0..=3)))
            .prop_map(|(factors, widths)| OpSpec::Product(ProductSpec { factors, widths })),
    ];
    let spec = prop_oneof![10 => hostile_leaf(), 2 => nested];
    (spec, hostile(), hostile()).prop_map(|(spec, out, inp)| of_shape(spec, out, inp)).boxed()
}
