"""Flink's options for what a job depends on.

Source: org.apache.flink.python.PythonOptions, org.apache.flink.python.util.PythonDependencyUtils.
"""

PYTHON_FILES = "python.files"
PYTHON_REQUIREMENTS = "python.requirements"
PYTHON_ARCHIVES = "python.archives"
PYTHON_EXECUTABLE = "python.executable"
PYTHON_EXECUTION_MODE = "python.execution-mode"
PIPELINE_JARS = "pipeline.jars"
PIPELINE_CLASSPATHS = "pipeline.classpaths"

FILE_DELIMITER = ","  #: between paths
PARAM_DELIMITER = "#"  #: between a path and what belongs to it
