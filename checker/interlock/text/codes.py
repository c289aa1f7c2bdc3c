"""Every code a finding may carry, with its rule, title and severity: the headings of spec/, once, as data."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.text.finding import Severity

FAMILIES = {
    "1": "syntax, files and limits",
    "2": "cut, skeleton, placement",
    "3": "order, completeness, microbatches, reductions",
    "4": "communication",
    "5": "memory",
    "6": "backward footprint",
    "7": "requirements",
    "8": "targets and lowering",
    "9": "what Interlock cannot answer, and its own faults",
}


@dataclass(frozen=True)
class Code:
    """`rule`: the rule, or the range of rules, that the code stands for. `severity`: unless a configuration
    says otherwise.

    `outcome`: what the run comes to, for codes that say more of Interlock than of the schedule. `also`: rules
    that give it besides.
    """

    code: str
    rule: str
    title: str
    severity: Severity = Severity.ERROR
    outcome: str = ""
    also: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The title, and what the code is unless an error: `idle weight work (warning)`."""
        kind = self.outcome or ("" if self.severity is Severity.ERROR else self.severity.value)
        return f"{self.title} ({kind})" if kind else self.title

    @property
    def family(self) -> str:
        """The digit of the hundred: a key of FAMILIES."""
        return self.code[2]

    @property
    def is_about_interlock(self) -> bool:
        """It says what Interlock cannot answer, or was asked wrongly; it is no rule about schedules."""
        return self.family == "9"


_CODES = (
    Code("IL101", "R-SYN-1", "the text follows the grammar"),
    Code("IL102", "R-SYN-2", "a number has the unit its place asks for"),
    Code("IL103", "R-SYN-3", "a name is given once"),
    Code("IL104", "R-SYN-4", "the text keeps within the limits"),
    Code("IL105", "R-SYN-5", "the file is text"),
    Code("IL106", "R-SYN-6", "the file says something"),
    Code("IL107", "R-SYN-7", "every name is known"),
    Code("IL108", "R-CSV-1", "a cell is one operation, as a whole"),
    Code("IL109", "R-CSV-2", "every line is a rank"),
    Code("IL110", "R-CSV-3", "no line is empty or torn, and no cell is empty among transfers"),
    Code("IL111", "R-MEG-1", "a layout and flags follow Megatron's grammar"),
    Code("IL112", "R-STEP-1", "a list of steps has the form of its format"),
    Code("IL113", "R-STEP-2", "the steps of a file belong together"),
    Code("IL114", "R-PROF-1", "a profile has the form of its version"),
    Code(
        "IL115",
        "R-PROF-2",
        "figures have their unit, are not negative, and are there where they are asked for",
    ),
    Code("IL116", "R-PROF-3", "a trace tells the times of its layers, and of each once"),
    Code("IL117", "R-PROF-4", "what is to be measured can be run"),
    Code("IL201", "R-CUT-1", "the regions tile the model"),
    Code("IL202", "R-CUT-2", "no two neighbours are both Replicated"),
    Code("IL203", "R-CUT-3", "every region names a skeleton that exists"),
    Code("IL204", "R-CSV-4", "stages are numbered without gaps"),
    Code("IL205", "R-CUT-4", "no stage is empty, and every microbatch visits one"),
    Code("IL206", "R-SIZE-1", "the numbers of ranks and microbatches are 1 or more, and lists fit them"),
    Code("IL207", "R-SKEL-1", "a skeleton is used where its conditions hold"),
    Code("IL208", "R-SKEL-2", "files do not use each other in a circle"),
    Code("IL209", "R-OWN-1", "an owner map gives every microbatch a rank"),
    Code("IL210", "R-SKEL-3", "a skeleton gets the arguments it takes"),
    Code("IL211", "R-CUT-5", "an order that hides nothing, or that no skeleton fixes", Severity.WARNING),
    Code("IL212", "R-SKEL-4", "a skeleton's operations are in range"),
    Code("IL213", "R-SKEL-5", "every expression of a skeleton has a value"),
    Code("IL214", "R-MEG-2", "a layout is a model, and fits what is asked"),
    Code("IL215", "R-MEG-3", "no layer is lost"),
    Code("IL216", "R-OWN-2", "what `owner: any` covers", Severity.NOTE),
    Code("IL301", "R-DEP-1 to R-DEP-4", "an operation is listed after what it needs on its own rank"),
    Code("IL302", "R-ONCE", "no operation is missing"),
    Code("IL303", "R-ONCE", "no operation is listed twice"),
    Code("IL304", "R-ONCE", "an operation is on the rank of its stage"),
    Code("IL305", "R-ONCE", "a backward is B, or I and W, never a mix"),
    Code("IL306", "R-MB", "every rank runs the same microbatches"),
    Code("IL307", "R-DEP-6", "no cyclic wait among compute operations"),
    Code("IL308", "R-DEP-5", "every reduction is there, once"),
    Code("IL309", "R-DEP-5", "a reduction comes after every W it sums"),
    Code("IL310", "R-DEP-5", "a tie is reduced before the data-parallel reduction"),
    Code("IL311", "R-DEP-5", "the step comes last"),
    Code("IL312", "R-DEP-7", "a send follows its producer, a receive precedes its consumer"),
    Code("IL313", "R-DEP-5", "gradients are not cleared between backward and step"),
    Code("IL314", "R-ONCE", "every stage number exists"),
    Code("IL401", "R-COM-1", "every dependency between ranks is carried by exactly one transfer"),
    Code("IL402", "R-COM-3", "no deadlock"),
    Code("IL403", "R-COM-2", "matching by order equals matching by payload"),
    Code("IL404", "R-COM-4", "collectives agree"),
    Code("IL405", "R-COM-5", "communicators are created in one order"),
    Code("IL406", "R-COM-6", "only members use a communicator"),
    Code("IL407", "R-COM-7", "a buffer is not reused before its transfer was waited for"),
    Code("IL408", "R-COM-8", "both ends of a transfer are grouped, or neither"),
    Code("IL501", "R-MEM-1", "the peak of every rank fits"),
    Code("IL502", "R-MEM-2", "stashes do not grow with the number of microbatches", Severity.WARNING),
    Code("IL601", "R-FOOT-1", "no backward operation of the footprint is missing"),
    Code("IL602", "R-FOOT-2", "nothing that the footprint excludes is listed", also=("R-FOOT-3",)),
    Code("IL603", "R-FOOT-2", "idle weight work", Severity.WARNING),
    Code("IL604", "R-FOOT-3", "nothing trains", Severity.NOTE),
    Code("IL605", "R-RANK", "every member of a reduction's group enters it"),
    Code("IL606", "R-INV-1", "one order serves every freezing"),
    Code("IL607", "R-INV-1", "what the invariance covers", Severity.NOTE),
    Code("IL701", "R-REQ-2", "`require peak` holds"),
    Code("IL702", "R-REQ-3", "`require in_flight` holds"),
    Code("IL703", "R-REQ-4", "`require bubble` holds"),
    Code("IL704", "R-REQ-5", "`require exposure` holds"),
    Code("IL705", "R-REQ-6", "`require makespan` holds"),
    Code("IL800", "R-TGT", "the program is valid under the models of the target's transport"),
    Code("IL801", "R-TGT-TORCH-1", "the last stage runs its forwards in ascending order"),
    Code("IL802", "R-TGT-TORCH-2", "the first trainable stage after a frozen prefix uses B"),
    Code("IL803", "R-TGT-TORCH-3", "a CSV lists a backward for every stage and microbatch"),
    Code("IL804", "R-TGT-TORCH-4", "every microbatch visits every stage"),
    Code("IL805", "R-TGT-TORCH-5", "what crosses a stage boundary has one shape"),
    Code("IL806", "R-TGT-TORCH-6", "a stage is one object on one rank, where the schedule runs it"),
    Code("IL807", "R-TGT-TORCH-7", "every operation has an action"),
    Code("IL808", "R-TGT-TORCH-8", "reductions are written where transfers are"),
    Code("IL809", "R-TGT-TORCH-9", "the peak under PyTorch's runtime fits"),
    Code("IL811", "R-TGT-TITAN-1", "transfers are inserted"),
    Code("IL812", "R-TGT-TITAN-2", "every rank has as many stages"),
    Code("IL813", "R-TGT-TITAN-3", "stages lie in a loop, or in a V where a V schedule is named"),
    Code("IL814", "R-TGT-TITAN-4", "there are fewer microbatches than stages", Severity.WARNING),
    Code("IL821", "R-TGT-HYPER-1", "Sharded stages lie in a loop, or in a V"),
    Code("IL822", "R-TGT-HYPER-2", "a Replicated region comes first"),
    Code("IL823", "R-TGT-HYPER-3", "a stage computes its weight gradients in ascending order"),
    Code("IL824", "R-TGT-HYPER-4", "every microbatch visits the first and the last Sharded stage"),
    Code("IL825", "R-TGT-HYPER-5", "gathers are a prefix"),
    Code("IL826", "R-TGT-HYPER-6", "one rank has one Sharded stage"),
    Code("IL827", "R-TGT-HYPER-7", "a communicator's transfers are all grouped or all plain"),
    Code("IL828", "R-TGT-HYPER-8", "no backward without a gradient path"),
    Code("IL831", "R-TGT-NPU-1", "both ends of a transfer are grouped, or neither"),
    Code("IL832", "R-TGT-NPU-2", "a communicator carries grouped transfers or plain ones"),
    Code("IL833", "R-TGT-NPU-3", "the first grouped launch needs the whole group"),
    Code("IL841", "R-LOW-1", "reading the plan back gives the program"),
    Code("IL842", "R-LOW-2", "the plan passes every rule under the transport's model"),
    Code("IL843", "R-LOW-3", "an unverified program is not lowered"),
    Code("IL844", "R-LOW-4", "the target can run the program"),
    Code("IL845", "R-LOW-5", "a plan is of the version that reads it, and consistent"),
    Code("IL846", "R-RUN-1", "every rank runs the same plan"),
    Code("IL847", "R-RUN-2", "both ends of a transfer agree on type and shape"),
    Code("IL848", "R-RUN-3", "a failure ends every rank within the time limit"),
    Code("IL849", "R-RUN-4", "what a Runner is given is what the plan says"),
    Code(
        "IL901", "R-REQ-1", "a requirement this version does not decide", Severity.WARNING, outcome="unknown"
    ),
    Code("IL902", "R-ENG-1", "the engines, the kernel or the executor disagree", outcome="internal error"),
    Code("IL903", "R-VER-1", "nothing was shown", Severity.WARNING, outcome="unknown"),
    Code("IL904", "R-VER-1", "the assumptions admit no instance", Severity.WARNING, outcome="unknown"),
    Code("IL905", "R-EXP-1", "an expectation is not met"),
    Code("IL906", "R-GATE-1", "a waiver that waives nothing", Severity.WARNING),
    Code("IL907", "R-GATE-2", "errors are not waived"),
    Code("IL908", "R-GATE-3", "a configuration says what it may"),
)
CODES: dict[str, Code] = {code.code: code for code in _CODES}


def rule_of(code: str) -> str:
    return CODES[code].rule
