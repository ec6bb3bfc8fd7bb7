//! Fast inertial relaxation engine (Bitzek et al., PRL 97, 170201, 2006), with its parameters.

use super::inner;

const FIRST_TIME: f64 = 0.1;
const LONGEST_TIME: f64 = 1.0;
const PATIENCE: u32 = 5;
const FASTER: f64 = 1.1;
const SLOWER: f64 = 0.5;
const MIXING: f64 = 0.1;
const LESS_MIXING: f64 = 0.99;

pub(super) struct Fire {
    velocities: Vec<[f64; 3]>,
    time: f64,
    mixing: f64,
    downhill: u32,
}

impl Default for Fire {
    fn default() -> Self {
        Self { velocities: Vec::new(), time: FIRST_TIME, mixing: MIXING, downhill: 0 }
    }
}

impl Fire {
    pub(super) fn step(&mut self, forces: &[[f64; 3]]) -> Vec<[f64; 3]> {
        self.velocities.resize(forces.len(), [0.0; 3]);
        if inner(forces, &self.velocities) > 0.0 {
            self.turn(forces);
            if self.downhill > PATIENCE {
                self.time = (self.time * FASTER).min(LONGEST_TIME);
                self.mixing *= LESS_MIXING;
            }
            self.downhill += 1;
        } else {
            self.velocities.fill([0.0; 3]);
            self.mixing = MIXING;
            self.time *= SLOWER;
            self.downhill = 0;
        }
        let moved = self.velocities.iter_mut().flatten().zip(forces.iter().flatten());
        moved.for_each(|(velocity, force)| *velocity += self.time * force);
        self.velocities.iter().map(|v| v.map(|x| self.time * x)).collect()
    }

    /// Turns velocities towards the forces.
    fn turn(&mut self, forces: &[[f64; 3]]) {
        let speed = inner(&self.velocities, &self.velocities).sqrt();
        let force = inner(forces, forces).sqrt();
        for (velocity, pull) in self.velocities.iter_mut().flatten().zip(forces.iter().flatten()) {
            *velocity = (1.0 - self.mixing) * *velocity + self.mixing * speed * pull / force;
        }
    }
}
