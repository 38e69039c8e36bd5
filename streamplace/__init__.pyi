from formulations.schedule.steps import Steps as Steps
from formulations.schedule.steps import steps as steps
from optim.errors import InvalidInput as InvalidInput
from optim.errors import RefereeRefused as RefereeRefused
from optim.errors import SolverError as SolverError
from optim.errors import StreamplaceError as StreamplaceError
from optim.errors import UnsuitableMethod as UnsuitableMethod
from optim.format.builder import InstanceBuilder as InstanceBuilder
from optim.format.instance import Instance as Instance
from optim.format.plan import Plan as Plan
from optim.methods.registry import Method as Method
from optim.methods.registry import Outcome as Outcome
from optim.methods.registry import Request as Request
from optim.methods.registry import Settings as Settings
from optim.methods.registry import all_methods as all_methods
from optim.methods.registry import get_method as get_method
from optim.methods.solve import solve as solve
from optim.plugins import Option as Option
from optim.referee import Evaluation as Evaluation
from optim.referee import Result as Result
from optim.referee import Termination as Termination
from optim.referee import evaluate as evaluate
from optim.referee import to_frames as to_frames
from optim.rules.base import Violation as Violation

__version__: str
