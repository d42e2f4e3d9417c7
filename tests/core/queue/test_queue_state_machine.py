"""Any composition at all against the oracle, as a state machine: a failure shrinks to the fewest policies and steps."""

from __future__ import annotations

from hypothesis import assume, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.core.model_suite.compositions import Composition, refusal_of
from tests.core.model_suite.policies import AXES
from tests.core.model_suite.programs import COMMANDS, Command, Interpreter, Program
from tests.hypothesis_profiles import state_machine_settings

# The compositions of tests/core/model_suite hold every pair; these hold whatever seven policies come together.
COMPOSITIONS = st.tuples(*(st.sampled_from(policies) for policies in AXES.values())).map(Composition)
CHOICES = st.binary(min_size=0, max_size=16)
COMMANDS_BY_WEIGHT = [command for command in COMMANDS for _ in range(command.weight)]


class QueueMachine(RuleBasedStateMachine):
    @initialize(composition=COMPOSITIONS, choices=CHOICES)
    def start(self, composition: Composition, choices: bytes) -> None:
        assume(not refusal_of(composition.policies))
        note(composition.identifier)
        self.interpreter = Interpreter(composition, choices)
        self.interpreter.open_sessions()

    @rule(command=st.sampled_from(COMMANDS_BY_WEIGHT), choices=CHOICES)
    def step(self, command: Command, choices: bytes) -> None:
        self.interpreter.program = Program(choices)
        note(self.interpreter.execute(command))

    @invariant()
    def same_as_the_oracle(self) -> None:
        self.interpreter.runner.compare()


QueueMachine.TestCase.settings = state_machine_settings(examples=60, steps=40)
TestQueueAgainstOracle = QueueMachine.TestCase
