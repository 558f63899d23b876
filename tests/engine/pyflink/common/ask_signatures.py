"""Writes pyflink_signatures.json: the public names of PyFlink's modules that this folder tests. Not a test.

usage: python ask_signatures.py > pyflink_signatures.json, with a Python that has apache-flink 2.3.0.

By "module:class.name": the parameters of a function (name, kind, repr of the default), the value of an enum's
member. Parameters that take Java objects are left out, and so are constructors that take nothing else.
"""

import enum
import importlib
import inspect
import json

MODULES = {
    "common": (
        "completable_future config_options configuration execution_config input_dependency_constraint io "
        "job_client job_execution_result job_id job_status restart_strategy serialization serializer time "
        "typeinfo types watermark_strategy"
    ),
    "datastream": (
        "checkpoint_config checkpoint_storage checkpointing_mode externalized_checkpoint_retention "
        "execution_mode output_tag slot_sharing_group state_backend"
    ),
}

Found = dict[str, object]


def walk(prefix: str, owner: type, found: Found) -> None:
    for name, member in sorted(vars(owner).items()):
        function = getattr(member, "__func__", member)
        if isinstance(member, enum.Enum):
            found[f"{prefix}.{name}"] = member.value
        elif inspect.isclass(member) and member.__module__.startswith("pyflink"):
            walk(f"{prefix}.{name}", member, found)
        elif inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            of_java = [one for one in inspect.signature(function).parameters if one.startswith("j_")]
            parameters = without_java(function)
            if parameters or not of_java:
                found[f"{prefix}.{name}"] = parameters


def without_java(function: object) -> list[list[object]]:
    return [
        [one.name, one.kind.name, None if one.default is one.empty else repr(one.default)]
        for one in inspect.signature(function).parameters.values()  # type: ignore[arg-type]
        if one.name not in ("self", "cls") and not one.name.startswith("j_")
    ]


def main() -> None:
    found: Found = {}
    for package, names in MODULES.items():
        for name in names.split():
            module = importlib.import_module(f"pyflink.{package}.{name}")
            for label, member in sorted(vars(module).items()):
                if inspect.isclass(member) and member.__module__ == module.__name__:
                    walk(f"{package}.{name}:{label}", member, found)
    lines = [f"{json.dumps(name)}: {json.dumps(member)}" for name, member in found.items()]
    print("{", ",\n".join(lines), "}", sep="\n")


if __name__ == "__main__":
    main()
