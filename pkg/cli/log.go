package cli

import (
	"fmt"
	"io"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// LogOff is the level at which nothing is logged.
const LogOff = "off"

// NewLogger returns a logger that writes JSON lines with unprintable characters escaped. It
// also gets the lines that client-go logs through klog and net/http through package log.
func NewLogger(w io.Writer, level string) (klog.Logger, error) {
	core := zapcore.NewNopCore()
	if level != LogOff {
		at, err := zapcore.ParseLevel(level)
		if err != nil {
			return klog.Logger{}, fmt.Errorf("--log-level %q: off, error, warn, info and debug are levels", level)
		}
		cfg := zap.NewProductionEncoderConfig()
		cfg.EncodeTime = zapcore.RFC3339NanoTimeEncoder
		core = zapcore.NewCore(zapcore.NewJSONEncoder(cfg), zapcore.Lock(zapcore.AddSync(PrintableJSON(w))), at)
	}
	base := zap.New(core)
	zap.RedirectStdLog(base) // for good: the process has one logger
	logger := zapr.NewLogger(base)
	klog.SetLogger(logger)
	return logger, nil
}

// Warn logs at level warn, which klog.Logger does not have: something is wrong, but nothing failed.
func Warn(logger klog.Logger, msg string, keysAndValues ...any) {
	if z, ok := logger.GetSink().(zapr.Underlier); ok {
		z.GetUnderlying().Sugar().Warnw(msg, keysAndValues...)
	}
}
