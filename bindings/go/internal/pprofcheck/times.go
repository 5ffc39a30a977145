// SPDX-License-Identifier: MIT OR Apache-2.0

package pprofcheck

import "time"

const sampleTimes = 1000 // onstack.h: ONSTACK_PPROF_SAMPLE_TIMES

// Times are the times of all samples of a profile, since its start, as onstack.h says that they are written.
func Times(packed []byte) (all []time.Duration, err error) {
	raw, err := unpack(packed)
	if err != nil {
		return nil, err
	}
	err = each(raw, func(sample field) error {
		if sample.tag != profileSample {
			return nil
		}
		return each(sample.bytes, func(times field) error {
			if times.tag != sampleTimes {
				return nil
			}
			numbers, err := times.numbers()
			if err != nil {
				return err
			}
			all = appendTimes(all, numbers)
			return nil
		})
	})
	return all, err
}

// appendTimes of one sample: each is a difference, and a bit that says whether a weight follows.
func appendTimes(all []time.Duration, numbers []uint64) []time.Duration {
	for at := int64(0); len(numbers) > 0; {
		since := numbers[0] >> 1
		at += int64(since>>1) ^ -int64(since&1)
		all = append(all, time.Duration(at)*time.Microsecond)
		numbers = numbers[min(1+int(numbers[0]&1), len(numbers)):]
	}
	return all
}
